//! The registration of weights steered by measurement.

use crate::carriers::{self, CarrierName};
use crate::handle::{Weights, WeightsOptions};
use crate::record::WeightsRestorer;
use enforcer::{Check, EnforceError, Enforcer, Needs, Registration, Settings, Survey};
use ledger::{KindName, ResourceKind};

/// The suffix of its record.
const RECORD: &str = ".weights";

/// Weights of the CPU where there is no cgroup v2 controller.
pub const REGISTRATION: Registration = Registration {
    name: "weights",
    kinds: || vec![ResourceKind::cpu()],
    serves_private: false,
    summary: "The kernel's own weights, by cgroup v1 or nice values, steered by what was measured",
    merit: |_| "the kernel's own weights, steered by what was measured",
    available: |settings, _| found(settings).map(|(_, why)| why),
    start,
    needs: |_| Needs::NOTHING,
    helper: None,
    records: &[RECORD],
    restorer: Some(&WeightsRestorer),
    survey,
};

/// Finds the carrier that is asked for (`cpu.carrier`), or the best that works here, and how it would work.
fn found(settings: &Settings) -> Result<(CarrierName, String), String> {
    let asked = settings.own(KindName::CPU, "carrier").map(str::parse).transpose()?;
    carriers::available(asked)
}

fn start(settings: &Settings, _: &[KindName]) -> Result<Box<dyn Enforcer>, EnforceError> {
    let refused = |why: String| EnforceError::Refused(why.into());
    let (carrier, _) = found(settings).map_err(refused)?;
    let weights = Weights::start(WeightsOptions {
        carrier,
        name: "allot".to_owned(),
        program: settings.program.clone(),
        record: settings.record(RECORD),
    })?;
    Ok(Box::new(weights))
}

fn survey(settings: &Settings) -> Survey {
    let (ok, says) = match found(settings) {
        Ok((_, why)) => (true, why),
        Err(why) => (false, why),
    };
    let checks = vec![Check { name: "steered weights".to_owned(), ok, says }];
    Survey { resources: Vec::new(), checks }
}
