//! Integer functions of the source as formulas of SMT-LIB: what they answer, and what must hold so that no step
//! overflows, divides by 0 or loses bits.

use std::collections::BTreeMap;
use syn::{BinOp, Expr, ExprMatch, Lit, Pat, Stmt};

/// A value of the translated code.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A number: its term and the bits of its type; literals have none yet.
    Int(String, Option<u32>),
    /// A condition.
    Bool(String),
    /// A variant without data.
    Variant(String),
    /// What `u64::try_from` answers.
    Fallible(String),
    Tuple(Vec<Value>),
    Struct(BTreeMap<String, Value>),
}

/// A function, and the constants that it may name.
pub(super) struct Source {
    body: syn::Block,
    parameters: Vec<String>,
    constants: BTreeMap<String, Expr>,
}

impl Source {
    /// Finds a function, or a method, in one file of the source.
    pub fn find(name: &str, text: &str, constants: &[&str]) -> Source {
        let mut found = Vec::new();
        for item in &parsed(text).items {
            match item {
                syn::Item::Fn(it) if it.sig.ident == name => {
                    found.push((it.sig.clone(), (*it.block).clone()));
                }
                syn::Item::Impl(it) => found.extend(it.items.iter().filter_map(|it| match it {
                    syn::ImplItem::Fn(it) if it.sig.ident == name => {
                        Some((it.sig.clone(), it.block.clone()))
                    }
                    _ => None,
                })),
                _ => {}
            }
        }
        assert_eq!(found.len(), 1, "functions with the name {name}");
        let (signature, body) = found.remove(0);
        let parameters = signature.inputs.iter().map(|input| match input {
            syn::FnArg::Receiver(_) => "self".to_owned(),
            syn::FnArg::Typed(it) => name_of(&it.pat),
        });
        let all = constants.iter().chain([&text]).flat_map(|text| parsed(text).items);
        let constants = all.filter_map(|item| match item {
            syn::Item::Const(it) => Some((it.ident.to_string(), *it.expr)),
            _ => None,
        });
        Source { body, parameters: parameters.collect(), constants: constants.collect() }
    }
}

fn parsed(text: &str) -> syn::File {
    syn::parse_file(text).expect("the compiler has read it")
}

fn name_of(pattern: &Pat) -> String {
    match pattern {
        Pat::Ident(it) => it.ident.to_string(),
        Pat::Type(it) => name_of(&it.pat),
        _ => panic!("a pattern that is no name"),
    }
}

/// A translated call.
#[derive(Debug, Default)]
pub(super) struct Formula {
    /// Names of the numbers that the steps have introduced.
    pub names: Vec<String>,
    /// What holds of them.
    pub facts: Vec<String>,
    /// What must hold, in order of the steps.
    pub obligations: Vec<String>,
    /// The number that the call answers.
    pub answer: String,
}

impl Formula {
    /// Translates the call of a function.
    pub fn call(source: &Source, arguments: &[Value]) -> Formula {
        assert_eq!(source.parameters.len(), arguments.len());
        let known = source.parameters.iter().cloned().zip(arguments.iter().cloned()).collect();
        let mut call = Translation { source, known, path: Vec::new(), formula: Formula::default() };
        let (answer, _) = call.block(&source.body).int();
        Formula { answer, ..call.formula }
    }
}

struct Translation<'a> {
    source: &'a Source,
    known: BTreeMap<String, Value>,
    /// The conditions under which the step is taken.
    path: Vec<String>,
    formula: Formula,
}

impl Value {
    fn int(self) -> (String, Option<u32>) {
        match self {
            Value::Int(term, bits) => (term, bits),
            other => panic!("no number: {other:?}"),
        }
    }

    fn bool(self) -> String {
        match self {
            Value::Bool(term) => term,
            other => panic!("no condition: {other:?}"),
        }
    }
}

fn power_of_two(bits: u32) -> String {
    match bits {
        128 => "340282366920938463463374607431768211456".to_owned(),
        _ => (1_u128 << bits).to_string(),
    }
}

impl Translation<'_> {
    fn must(&mut self, condition: String) {
        let condition = match self.path.as_slice() {
            [] => condition,
            path => format!("(=> (and {}) {condition})", path.join(" ")),
        };
        self.formula.obligations.push(condition);
    }

    fn fresh(&mut self) -> String {
        let name = format!("step{}", self.formula.names.len());
        self.formula.names.push(name.clone());
        name
    }

    /// What the step does while `condition` holds.
    fn under<T>(&mut self, condition: String, step: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(condition);
        let answer = step(self);
        self.path.pop();
        answer
    }

    fn block(&mut self, block: &syn::Block) -> Value {
        let outer = self.known.clone();
        let mut last = None;
        for statement in &block.stmts {
            match statement {
                Stmt::Local(local) => {
                    let init = local.init.as_ref().expect("a variable has a value");
                    let value = self.expression(&init.expr);
                    self.bind(&local.pat, value);
                }
                Stmt::Expr(expression, None) => last = Some(self.expression(expression)),
                _ => panic!("a statement that changes something"),
            }
        }
        self.known = outer;
        last.expect("a block has a value")
    }

    fn bind(&mut self, pattern: &Pat, value: Value) {
        match (pattern, value) {
            (Pat::Tuple(names), Value::Tuple(values)) => {
                assert_eq!(names.elems.len(), values.len());
                names.elems.iter().zip(values).for_each(|(name, value)| self.bind(name, value));
            }
            (pattern, value) => {
                self.known.insert(name_of(pattern), value);
            }
        }
    }

    fn expression(&mut self, expression: &Expr) -> Value {
        match expression {
            Expr::Paren(it) => self.expression(&it.expr),
            Expr::Block(it) => self.block(&it.block),
            Expr::Tuple(it) => {
                Value::Tuple(it.elems.iter().map(|element| self.expression(element)).collect())
            }
            Expr::Lit(it) => match &it.lit {
                Lit::Int(number) => {
                    let number: u128 = number.base10_parse().expect("the compiler has read it");
                    Value::Int(number.to_string(), None)
                }
                _ => panic!("a literal that is no number"),
            },
            Expr::Path(it) => self.path(it),
            Expr::Field(it) => match (self.expression(&it.base), &it.member) {
                (Value::Struct(fields), syn::Member::Named(name)) => {
                    fields.get(&name.to_string()).expect("the test knows the field").clone()
                }
                (base, _) => panic!("no field of {base:?}"),
            },
            Expr::Cast(it) => {
                let (term, _) = self.expression(&it.expr).int();
                self.fitted(term, bits_of(&it.ty))
            }
            Expr::Binary(it) => self.binary(it),
            Expr::Call(it) => self.call(it),
            Expr::MethodCall(it) => self.method(it),
            Expr::If(it) => self.choice(it),
            Expr::Match(it) => self.arms(it),
            _ => panic!("an expression that is not known here"),
        }
    }

    /// The same number as another type, which must have room for it.
    fn fitted(&mut self, term: String, bits: u32) -> Value {
        self.must(format!("(< {term} {})", power_of_two(bits)));
        Value::Int(term, Some(bits))
    }

    fn path(&mut self, path: &syn::ExprPath) -> Value {
        let names: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match names.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["u64", "MAX"] => Value::Int(u64::MAX.to_string(), Some(64)),
            [name] => match (self.known.get(*name), self.source.constants.get(*name)) {
                (Some(value), _) => value.clone(),
                (None, Some(constant)) => self.expression(constant),
                (None, None) => panic!("an unknown name: {name}"),
            },
            [.., variant] => Value::Variant((*variant).to_owned()),
            [] => unreachable!("a path has a name"),
        }
    }

    fn binary(&mut self, it: &syn::ExprBinary) -> Value {
        let (one, one_bits) = self.expression(&it.left).int();
        let (two, two_bits) = self.expression(&it.right).int();
        let compared = |with: &str| Value::Bool(format!("({with} {one} {two})"));
        // The bits shifted by have a type of their own.
        let bits = one_bits.or(two_bits);
        let term = match it.op {
            BinOp::Gt(_) => return compared(">"),
            BinOp::Lt(_) => return compared("<"),
            BinOp::Ge(_) => return compared(">="),
            BinOp::Le(_) => return compared("<="),
            BinOp::Eq(_) => return compared("="),
            BinOp::Div(_) => return Value::Int(self.divided(&one, &two).0, bits),
            BinOp::Shl(_) => {
                let by = two.parse().expect("bits are shifted by a literal");
                format!("(* {one} {})", power_of_two(by))
            }
            BinOp::Add(_) => format!("(+ {one} {two})"),
            BinOp::Mul(_) => format!("(* {one} {two})"),
            BinOp::Sub(_) => {
                self.must(format!("(<= {two} {one})"));
                return Value::Int(format!("(- {one} {two})"), bits);
            }
            _ => panic!("an operator that is not known here"),
        };
        match bits {
            Some(bits) => self.fitted(term, bits),
            None => Value::Int(term, None),
        }
    }

    /// The quotient, rounded down, and the remainder.
    fn divided(&mut self, dividend: &str, divisor: &str) -> (String, String) {
        self.must(format!("(> {divisor} 0)"));
        let (quotient, rest) = (self.fresh(), self.fresh());
        self.formula.facts.push(format!(
            "(=> (> {divisor} 0) (and (= {dividend} (+ (* {quotient} {divisor}) {rest})) \
             (<= 0 {quotient}) (<= 0 {rest}) (< {rest} {divisor})))"
        ));
        (quotient, rest)
    }

    fn call(&mut self, it: &syn::ExprCall) -> Value {
        let Expr::Path(function) = &*it.func else { panic!("a call of no path") };
        let names: Vec<String> =
            function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let arguments: Vec<Value> = it.args.iter().map(|it| self.expression(it)).collect();
        match (names.join("::").as_str(), arguments.as_slice()) {
            ("u128::from", [value]) => Value::Int(value.clone().int().0, Some(128)),
            ("u64::try_from", [value]) => Value::Fallible(value.clone().int().0),
            (name, _) => panic!("a call that is not known here: {name}"),
        }
    }

    fn method(&mut self, it: &syn::ExprMethodCall) -> Value {
        let receiver = self.expression(&it.receiver);
        let name = it.method.to_string();
        if name == "expect" {
            let Value::Fallible(term) = receiver else { panic!("nothing that can fail") };
            return self.fitted(term, 64);
        }
        let argument = it.args.first().expect("it has an argument");
        let (argument, _) = self.expression(argument).int();
        match (name.as_str(), receiver) {
            ("saturating_sub", Value::Int(term, bits)) => {
                Value::Int(format!("(ite (<= {argument} {term}) (- {term} {argument}) 0)"), bits)
            }
            ("div_ceil", Value::Int(term, bits)) => {
                let (quotient, rest) = self.divided(&term, &argument);
                Value::Int(format!("(+ {quotient} (ite (> {rest} 0) 1 0))"), bits)
            }
            ("unwrap_or", Value::Fallible(term)) => {
                let fits = format!("(< {term} {})", power_of_two(64));
                Value::Int(format!("(ite {fits} {term} {argument})"), Some(64))
            }
            (name, receiver) => panic!("{name} of {receiver:?} is not known here"),
        }
    }

    fn choice(&mut self, it: &syn::ExprIf) -> Value {
        let condition = self.expression(&it.cond).bool();
        let (_, other) = it.else_branch.as_ref().expect("an expression has both");
        let (then, bits) = self.under(condition.clone(), |this| this.block(&it.then_branch)).int();
        let (other, _) =
            self.under(format!("(not {condition})"), |this| this.expression(other)).int();
        Value::Int(format!("(ite {condition} {then} {other})"), bits)
    }

    /// A match on a variant that is known: of the arms that name it, the first whose guard holds.
    fn arms(&mut self, it: &ExprMatch) -> Value {
        let Value::Variant(variant) = self.expression(&it.expr) else { panic!("no variant") };
        let arms: Vec<&syn::Arm> =
            it.arms.iter().filter(|arm| names_variant(&arm.pat, &variant)).collect();
        self.first_of(&arms)
    }

    fn first_of(&mut self, arms: &[&syn::Arm]) -> Value {
        let (arm, later) = arms.split_first().expect("one arm is without a guard");
        let Some((_, guard)) = &arm.guard else { return self.expression(&arm.body) };
        let guard = self.expression(guard).bool();
        let (then, bits) = self.under(guard.clone(), |this| this.expression(&arm.body)).int();
        let (other, _) = self.under(format!("(not {guard})"), |this| this.first_of(later)).int();
        Value::Int(format!("(ite {guard} {then} {other})"), bits)
    }
}

fn names_variant(pattern: &Pat, variant: &str) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Or(it) => it.cases.iter().any(|case| names_variant(case, variant)),
        Pat::Path(it) => it.path.segments.last().is_some_and(|last| last.ident == variant),
        _ => panic!("a pattern that names no variant"),
    }
}

fn bits_of(ty: &syn::Type) -> u32 {
    match ty {
        syn::Type::Path(it) if it.path.is_ident("u64") => 64,
        syn::Type::Path(it) if it.path.is_ident("u128") => 128,
        _ => panic!("a cast to a type that is not known here"),
    }
}
