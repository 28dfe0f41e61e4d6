//! Records of former and of this version, restored.

use super::*;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A file of the kernel, for a test.
fn setting(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, "changed").expect("written");
    path
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is read")
}

#[test]
fn settings_are_set_back_to_what_was_noted_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record");
    let files = ["kept", "limit"].map(|name| setting(folder.path(), name));
    let [kept, limit] = files.clone();
    let tree = UndoEntry::Tree {
        mount: folder.path().to_owned(),
        ours: vec!["none".to_owned()],
        systemd: false,
    };
    let standing = vec![tree.to_log().expect("JSON")];
    let options = RecordOptions { writer: "cgroup", processes: 0, standing };
    let mut record = undo::Record::create(Some(&path), &options).expect("a record");
    let number: DeviceNumber = "8:0".parse().expect("a device");
    let entries = [
        UndoEntry::Setting { path: kept.clone(), text: "first".to_owned() },
        UndoEntry::Setting { path: kept.clone(), text: "second".to_owned() },
        UndoEntry::Limit { path: limit.clone(), number, text: "limit".to_owned() },
        UndoEntry::Setting { path: folder.path().join("gone"), text: "gone".to_owned() },
    ];
    for entry in &entries {
        record.note_again(entry.to_log().expect("JSON")).expect("noted");
    }
    record.note_given_back(&UndoEntry::limit_key(&limit, number)).expect("noted");
    drop(record);
    let restored = undo::restore_leftovers(&path, &[&CgroupRestorer]).expect("it is restored");
    assert_eq!((restored.failed.len(), restored.left.len()), (0, 0), "{restored:?}");
    assert_eq!(restored.number_of(SETTINGS_RESTORED), 2);
    // As each write to a file of the kernel, a write does not cut short what was there.
    assert_eq!(files.map(|file| read(&file)), ["firstdd", "changed"]);
    assert!(!path.exists());
}

#[test]
fn a_record_of_the_former_version_is_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record");
    let files = ["setting", "limit", "given"].map(|name| setting(folder.path(), name));
    let boot = read(Path::new("/proc/sys/kernel/random/boot_id")).trim().replace('-', "");
    let boot = u128::from_str_radix(&boot, 16).expect("a boot id");
    let [high, low] = [(boot >> 64) as u64, boot as u64];
    let mount = folder.path().display();
    let lines = [
        format!(
            r#"{{"allot_cgroups":2,"boot":[{high},{low}],"mount":"{mount}","ours":["none"],"systemd":false}}"#
        ),
        format!(r#"{{"setting":{{"path":"{mount}/setting","text":"as it was found"}}}}"#),
        format!(r#"{{"limit":{{"path":"{mount}/given","number":"8:0","text":"given"}}}}"#),
        format!(r#"{{"limit_given_back":{{"path":"{mount}/given","number":"8:0"}}}}"#),
        format!(r#"{{"limit":{{"path":"{mount}/limit","number":"8:0","text":"8:0 riops=5"}}}}"#),
        r#"{"weight":{"cgroup":"/gone","weight":100}}"#.to_owned(),
        r#"{"setting":{"path":"torn"#.to_owned(),
    ];
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).mode(0o600).open(&path).expect("a file");
    io::Write::write_all(&mut file, lines.join("\n").as_bytes()).expect("written");
    let restored = undo::restore_leftovers(&path, &[&CgroupRestorer]).expect("it is restored");
    assert_eq!((restored.failed.len(), restored.left.len()), (0, 0), "{restored:?}");
    assert_eq!(restored.number_of(SETTINGS_RESTORED), 2);
    assert_eq!(files.map(|file| read(&file)), ["as it was found", "8:0 riops=5", "changed"]);
    assert!(!path.exists());
}

#[test]
fn an_entry_of_another_form_is_left_and_said() {
    let entry = undo::LogEntry {
        undo: "cgroup".to_owned(),
        key: "weight /a".to_owned(),
        was: serde_json::json!({"weight": {"cgroup": "/a", "weight": "many"}}),
    };
    let mut restored = Restored::default();
    undo::Restorer::restore(&CgroupRestorer, &[entry], &mut restored);
    assert_eq!(restored.left.len(), 2, "{restored:?}");
    assert!(restored.left[0].contains("weight /a"), "{restored:?}");
}
