//! Distinguishes addresses on the open internet from internal addresses.

use std::net::IpAddr;

/// Returns true for addresses on the open internet. These exclude this machine, private networks and the metadata
/// services of clouds.
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let reserved = a == 0 || a >= 240 || (a == 192 && b == 0 && c == 0) || (a == 198 && (b == 18 || b == 19));
            !(ip.is_loopback()
                || ip.is_private()
                || ip.is_link_local()
                || ip.is_multicast()
                || ip.is_documentation()
                || ip.is_broadcast()
                || shared
                || reserved)
        }
        IpAddr::V6(ip) => {
            if let Some(inner) = ip.to_ipv4_mapped() {
                return is_public(IpAddr::V4(inner));
            }
            let first = ip.segments()[0];
            // Global unicast, except for addresses that embed an IPv4 address or are reserved for documentation.
            (first & 0xe000) == 0x2000
                && first != 0x2002
                && !(first == 0x2001 && matches!(ip.segments()[1], 0 | 0x0db8))
        }
    }
}
