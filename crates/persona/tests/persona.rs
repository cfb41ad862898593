//! Personas, devices and configurations as programs see them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::time::Duration;

use ptxjit_persona::{Capability, Config, ModuleLoading, Persona, Schedule};

const GIB: u64 = 1 << 30;

/// The configuration of an environment, on a host with 1 TiB.
fn read(variables: &[(&str, &str)]) -> (Config, Vec<String>) {
    let map: HashMap<_, _> = variables.iter().copied().collect();
    Config::read(&|name| map.get(name).map(OsString::from), 1024 * GIB)
}

/// The configuration of an environment with nothing wrong in it.
fn config(variables: &[(&str, &str)]) -> Config {
    let (config, warnings) = read(variables);
    assert_eq!(warnings, [""; 0]);
    config
}

fn attribute(config: &Config, id: i32) -> Option<i32> {
    config.devices[0].attribute(id)
}

fn visible(list: &str, count: &str) -> Vec<u32> {
    let config = config(&[
        ("PTXJIT_DEVICE_COUNT", count),
        ("CUDA_VISIBLE_DEVICES", list),
    ]);
    config.devices.iter().map(|device| device.index).collect()
}

#[test]
fn an_empty_environment_is_an_a100() {
    let config = config(&[]);
    assert_eq!(config.devices.len(), 1);
    assert_eq!(config.driver_version, 13_000);
    assert_eq!(config.driver_version_text(), "580.00");
    // As NVIDIA's `deviceQuery` prints them for an A100 with 40 GB.
    let figures = [
        (1, 1024),
        (2, 1024),
        (4, 64),
        (5, i32::MAX),
        (6, 65_535),
        (8, 49_152),
        (10, 32),
        (12, 65_536),
        (13, 1_410_000),
        (16, 108),
        (36, 1_215_000),
        (37, 5120),
        (38, 41_943_040),
        (39, 2048),
        (75, 8),
        (76, 0),
        (81, 167_936),
        (82, 65_536),
        (97, 166_912),
        (106, 32),
        (108, 31_457_280),
        (109, 134_213_632),
        (111, 1024),
        (115, 1),
        (120, 0),
    ];
    for (id, value) in figures {
        assert_eq!(attribute(&config, id), Some(value), "attribute {id}");
    }
}

#[test]
fn every_attribute_of_cuda_13_5_has_a_value() {
    let config = config(&[]);
    for id in 1..162 {
        assert!(attribute(&config, id).is_some(), "attribute {id}");
    }
    for id in [0, -1, 162, 163, i32::MAX, i32::MIN] {
        assert_eq!(attribute(&config, id), None, "attribute {id}");
    }
}

#[test]
fn a_capability_chooses_the_persona_that_stands_for_it() {
    for (capability, name, optin_kib) in [
        ("9.0", "NVIDIA H100 80GB HBM3", 227),
        ("8.9", "NVIDIA GeForce RTX 4090", 99),
        ("10.0", "NVIDIA B200", 227),
        ("7.5", "Tesla T4", 64),
        // No such device is built in.
        ("8.7", "NVIDIA A100-SXM4-40GB", 163),
        ("10.3", "NVIDIA A100-SXM4-40GB", 227),
    ] {
        let config = config(&[("PTXJIT_COMPUTE_CAPABILITY", capability)]);
        let persona = &config.devices[0].persona;
        assert_eq!(persona.compute_capability.to_string(), capability);
        assert_eq!(persona.name, name);
        assert_eq!(
            attribute(&config, 97),
            Some(optin_kib << 10),
            "{capability}"
        );
    }
}

#[test]
fn a_persona_can_have_another_capability() {
    let config = config(&[
        ("PTXJIT_PERSONA", "h100"),
        ("PTXJIT_COMPUTE_CAPABILITY", "8.6"),
    ]);
    assert_eq!(config.devices[0].persona.name, "NVIDIA H100 80GB HBM3");
    assert_eq!(attribute(&config, 16), Some(132));
    assert_eq!(attribute(&config, 39), Some(1536));
    assert_eq!(attribute(&config, 120), Some(0));
}

#[test]
fn every_built_in_persona_passes_for_a_file() {
    for name in Persona::built_in_names() {
        let persona = Persona::from_toml(&format!("base = \"{name}\""));
        assert_eq!(
            persona.as_ref().ok(),
            Persona::built_in(name).as_ref(),
            "{persona:?}"
        );
    }
}

#[test]
fn a_file_overrides_its_base() {
    let text = "base = \"h100\"\nname = \"half\"\nmultiprocessors = 66\nmemory_mib = 512\n";
    let persona = Persona::from_toml(text).unwrap();
    assert_eq!(
        (persona.name.as_str(), persona.multiprocessors),
        ("half", 66)
    );
    assert_eq!(
        persona.compute_capability,
        Capability { major: 9, minor: 0 }
    );
    let text = "compute_capability = \"12.0\"\nmax_blocks_per_multiprocessor = 8\n";
    let persona = Persona::from_toml(text).unwrap();
    // The capability's limits come first, whatever the order in the file.
    assert_eq!(persona.max_threads_per_multiprocessor, 1536);
    assert_eq!(persona.max_blocks_per_multiprocessor, 8);
}

#[test]
fn a_wrong_file_says_what_is_wrong() {
    for (text, says) in [
        ("multiprocessor = 3", "multiprocessor"),
        ("multiprocessors = 0", "multiprocessors is 0"),
        ("multiprocessors = -1", "multiprocessors"),
        (
            "compute_capability = \"eight\"",
            "`eight` is not a compute capability",
        ),
        ("base = \"voodoo2\"", "`voodoo2`"),
        (
            "clock_mhz = 4000000000",
            "clock_mhz = 4000000000 is more than",
        ),
        (
            "shared_kib_per_block_optin = 16",
            "shared_kib_per_block_optin = 16",
        ),
        ("max_threads_per_multiprocessor = 32", "1024 threads"),
    ] {
        let error = Persona::from_toml(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn wrong_values_are_told_of_and_not_used() {
    for (name, value) in [
        ("PTXJIT_PERSONA", "voodoo2"),
        ("PTXJIT_PERSONA", "/no/such/file.toml"),
        ("PTXJIT_COMPUTE_CAPABILITY", "80"),
        ("PTXJIT_COMPUTE_CAPABILITY", "2.0"),
        ("PTXJIT_COMPUTE_CAPABILITY", "8.10"),
        ("PTXJIT_DEVICE_COUNT", "-1"),
        ("PTXJIT_DEVICE_COUNT", "1000000"),
        ("PTXJIT_DEVICE_MEMORY", "lots"),
        ("PTXJIT_DEVICE_MEMORY", "99999999999G"),
        ("PTXJIT_DEVICE_MEMORY", "é"),
        ("PTXJIT_DRIVER_VERSION", "thirteen"),
        ("PTXJIT_DRIVER_VERSION", "4294967295.0"),
        ("PTXJIT_TIMEOUT", "-3"),
        ("PTXJIT_TIMEOUT", "nan"),
        ("PTXJIT_MEMCHECK", "maybe"),
        ("PTXJIT_SCHEDULE", "seed:"),
        ("PTXJIT_THREADS", "0"),
        ("PTXJIT_GANG", "12"),
        ("PTXJIT_QUIET", "2"),
        ("CUDA_MODULE_LOADING", "NEVER"),
    ] {
        let (config, warnings) = read(&[(name, value)]);
        assert_eq!(warnings.len(), 1, "{name}={value}: {warnings:?}");
        assert!(
            warnings[0].contains(name) && warnings[0].contains(value),
            "{warnings:?}"
        );
        assert_eq!(config.devices[0].persona.name, Persona::default().name);
        assert_eq!(config.driver_version, 13_000);
        assert_eq!(
            (config.timeout, config.threads, config.gang),
            (None, None, None)
        );
    }
}

#[test]
fn values_are_read() {
    let config = config(&[
        ("PTXJIT_DEVICE_COUNT", "3"),
        ("PTXJIT_DEVICE_MEMORY", "2GiB"),
        ("PTXJIT_DRIVER_VERSION", "12.9"),
        ("PTXJIT_TIMEOUT", "1.5"),
        ("PTXJIT_MEMCHECK", "1"),
        ("PTXJIT_SCHEDULE", "seed:42"),
        ("PTXJIT_THREADS", "4"),
        ("PTXJIT_GANG", "8"),
        ("PTXJIT_CACHE_DIR", "/tmp/x"),
        ("PTXJIT_TRACE", "t"),
        ("CUDA_LAUNCH_BLOCKING", "1"),
        ("CUDA_MODULE_LOADING", "EAGER"),
        ("CUDA_DISABLE_PTX_JIT", "1"),
    ]);
    assert_eq!(config.devices.len(), 3);
    assert!(config.devices.iter().all(|device| device.memory == 2 * GIB));
    assert_eq!(
        (config.driver_version, config.driver_version_text()),
        (12_090, "575.00")
    );
    assert_eq!(config.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(config.schedule, Schedule::Random(42));
    assert_eq!((config.threads, config.gang), (Some(4), Some(8)));
    assert_eq!(config.cache_dir.unwrap().to_str(), Some("/tmp/x"));
    assert_eq!(config.trace.unwrap().to_str(), Some("t"));
    assert_eq!(config.module_loading, ModuleLoading::Eager);
    assert!(config.memcheck && config.launch_blocking && config.disable_ptx_jit && !config.quiet);
}

#[test]
fn memory_is_the_personas_or_three_quarters_of_the_hosts() {
    let memory = |host| Config::read(&|_| None, host).0.devices[0].memory;
    assert_eq!(memory(1024 * GIB), 40_536 << 20);
    assert_eq!(memory(16 * GIB), 12 * GIB);
    assert_eq!(memory(0), 40_536 << 20);
}

#[test]
fn devices_differ_in_uuid_and_bus() {
    let config = config(&[("PTXJIT_DEVICE_COUNT", "1024")]);
    let uuids: BTreeSet<_> = config
        .devices
        .iter()
        .map(|device| device.uuid_text())
        .collect();
    let buses: BTreeSet<_> = config
        .devices
        .iter()
        .map(|device| device.pci_bus_id())
        .collect();
    assert_eq!((uuids.len(), buses.len()), (1024, 1024));
    assert_eq!(config.devices[0].pci_bus_id(), "0000:01:00.0");
    let uuid = config.devices[5].uuid_text();
    assert_eq!(uuid.len(), "GPU-00000000-0000-0000-0000-000000000000".len());
    // Version 8, variant of RFC 9562.
    assert_eq!((&uuid[18..19], &uuid[23..24]), ("8", "8"), "{uuid}");
}

#[test]
fn visible_devices_are_chosen_by_index() {
    assert_eq!(visible("2,0", "4"), [2, 0]);
    assert_eq!(visible(" 1 , 3 ", "4"), [1, 3]);
    // The list ends at the first entry that is wrong.
    assert_eq!(visible("0,7,1", "4"), [0]);
    assert_eq!(visible("1,-1,0", "4"), [1]);
    assert_eq!(visible("1,,0", "4"), [1]);
    assert_eq!(visible("-1", "4"), [0; 0]);
    assert_eq!(visible("", "4"), [0; 0]);
    assert_eq!(visible("NoDevFiles", "4"), [0; 0]);
    assert_eq!(visible("99999999999999999999", "4"), [0; 0]);
    // Digits are read as `strtoul` reads them.
    assert_eq!(visible("1gpu2,2", "4"), [1, 2]);
    // A device that is named twice hides all.
    assert_eq!(visible("0,1,0", "4"), [0; 0]);
}

#[test]
fn visible_devices_are_chosen_by_uuid() {
    let all = config(&[("PTXJIT_DEVICE_COUNT", "4")]).devices;
    let whole = all[2].uuid_text();
    assert_eq!(visible(&whole, "4"), [2]);
    assert_eq!(visible(&whole.to_ascii_uppercase(), "4"), [2]);
    assert_eq!(visible(&whole[..8], "4"), [2]);
    assert_eq!(visible(&format!("{},0", &whole[..8]), "4"), [2, 0]);
    // This start is that of all.
    assert_eq!(visible("GPU-", "4"), [0; 0]);
    assert_eq!(visible("GPU-ffffffff", "4"), [0; 0]);
    assert_eq!(visible("MIG-GPU-1", "4"), [0; 0]);
}

#[test]
fn there_can_be_no_device() {
    assert!(config(&[("PTXJIT_DEVICE_COUNT", "0")]).devices.is_empty());
}
