//! File systems whose locks are not the kernel's own, by the number `fstatfs` gives them.

/// On these a lock may be kept by another machine, by a daemon, or by nobody at all.
const NOT_LOCAL: [(u32, &str); 18] = [
    (0x0000_6969, "nfs"),
    (0x0000_517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x6573_5546, "fuse"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x7375_7245, "coda"),
    (0x0000_564c, "ncp"),
    (0xaad7_aaea, "panfs"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
];

/// The name of the file system, if its locks cannot be trusted.
pub(in super::super) fn not_local(kind: u32) -> Option<&'static str> {
    NOT_LOCAL.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_pass() {
        assert_eq!(not_local(0x6969), Some("nfs"));
        assert_eq!(not_local(0xff53_4d42), Some("cifs"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(not_local(local), None, "{local:x}");
        }
    }
}
