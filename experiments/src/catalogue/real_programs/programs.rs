//! The programs, as shell scripts: a server is prepared, then the load runs for a while to warm up, then it is measured.

use crate::workloads::c_project;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub name: &'static str,
    /// The unit of its progress.
    pub unit: &'static str,
    /// Exits with success where all that it needs is installed.
    needs: &'static str,
    /// Prepares, and says so by `ready`.
    prepare: &'static str,
    /// Runs the load for `$1` seconds and prints its progress a second.
    load: &'static str,
    /// Ends what was prepared.
    end: &'static str,
}

pub(super) const PROGRAMS: [Program; 3] = [
    Program {
        name: "PostgreSQL, pgbench -S",
        unit: "transactions/s",
        needs: "ls /usr/lib/postgresql/*/bin/pgbench",
        prepare: r#"
            pg=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
            [ -d data ] || "$pg/initdb" -D data -A trust --no-sync || exit 1
            "$pg/postgres" -D data -k "$PWD" -c listen_addresses= -c shared_buffers=64MB -c fsync=off \
              -c autovacuum=off &
            server=$!
            until "$pg/psql" -h "$PWD" -d postgres -c '' 2>/dev/null; do kill -0 $server && sleep 0.2 || exit 1; done
            [ -e filled ] || { "$pg/createdb" -h "$PWD" b && "$pg/pgbench" -q -i -s 2 -h "$PWD" b && touch filled; }"#,
        load: r#""$pg/pgbench" -S -M prepared -c 4 -j 1 -T "$1" -h "$PWD" b | awk '/^tps/ { print $3 }'"#,
        end: "kill -INT $server; wait $server",
    },
    Program {
        name: "nginx, wrk",
        unit: "requests/s",
        needs: "command -v nginx && command -v wrk",
        prepare: r#"
            port=$((20000 + $(pwd | cksum | cut -d ' ' -f 1) % 10000))
            head -c 4096 /dev/zero >page.html
            printf '%s\n' 'worker_processes 2; pid nginx.pid; error_log error.log;' 'events { }' \
              'http { access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;' \
              'uwsgi_temp_path t4; scgi_temp_path t5;' \
              "server { listen 127.0.0.1:$port; root $PWD; } }" >nginx.conf
            "$(command -v nginx)" -p "$PWD" -e error.log -c nginx.conf -g 'daemon off;' &
            server=$!
            until [ -s nginx.pid ]; do kill -0 $server && sleep 0.1 || exit 1; done"#,
        load: r#"wrk -t 1 -c 16 -d "${1}s" "http://127.0.0.1:$port/page.html" | awk '/^Requests/ { print $2 }'"#,
        end: "kill $server; wait $server; rm -f nginx.pid",
    },
    Program {
        name: "compilers",
        unit: "files/s",
        needs: "command -v cc",
        prepare: r#"
            compile() {
              n=0; end=$(($(date +%s%N) + $1 * 1000000000))
              while [ "$(date +%s%N)" -lt $end ]; do cc -O1 -c -o "part-$2.o" part.c; n=$((n + 1)); done
              echo $n >"count-$2"
            }"#,
        load: r#"compile "$1" 1 & a=$!; compile "$1" 2 & wait $a $!
            cat count-1 count-2 | awk -v s="$1" '{ n += $1 } END { print n / s }'"#,
        end: ":",
    },
];

impl Program {
    /// Returns whether all that it needs is installed.
    pub fn is_installed(&self) -> bool {
        let mut test = Command::new("sh");
        test.args(["-c", &format!("{{ {}; }} >/dev/null 2>&1", self.needs)]);
        test.status().is_ok_and(|status| status.success())
    }

    /// Returns the script: it prepares, waits for `go`, warms up, and writes its progress to `result`.
    pub fn script(&self, warm_s: u64, seconds: u64) -> String {
        let Program { prepare, load, end, .. } = self;
        format!(
            "exec >log 2>&1\nload() {{ {load}\n}}\n{prepare}\ntouch ready\n\
             until [ -e go ]; do sleep 0.05; done\nload {warm_s} >/dev/null\n\
             touch warm\nload {seconds} >result.new\nmv result.new result\n\
             until [ -e end ]; do sleep 0.05; done\n{end}\ntouch ended\n"
        )
    }
}

/// Makes a directory for one side's program, which keeps what was prepared there.
pub(super) fn directory(top: &Path, name: &str, uid: Option<u32>) -> io::Result<PathBuf> {
    // Another user has to come by, and nothing in it is secret.
    std::fs::set_permissions(top, std::fs::Permissions::from_mode(0o711))?;
    let directory = top.join(name);
    std::fs::create_dir_all(&directory)?;
    c_project::write_file(&directory.join("part.c"), 0)?;
    if let Some(uid) = uid {
        std::os::unix::fs::chown(&directory, Some(uid), Some(uid))?;
    }
    for file in ["ready", "go", "warm", "end", "result", "ended"] {
        let _ = std::fs::remove_file(directory.join(file));
    }
    Ok(directory)
}
