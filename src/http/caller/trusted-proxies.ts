import { BlockList } from 'node:net';
import { readAddress } from './address.ts';

/** Named address ranges that TRUST_PROXY accepts. */
const RANGES: Readonly<Record<string, readonly string[]>> = {
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  loopback: ['127.0.0.0/8', '::1/128'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
};

/** Bits of an IPv6 address before the IPv4 address that it may hold. */
const MAPPED_BITS = 96;

/**
 * Whether to trust the X-Forwarded-For of this address. Fastify's own check does not parse an entry with a port: it
 * trusts no entry behind it, and uses the raw entry as the address.
 * @param entries addresses, networks and ranges, validated by the configuration.
 */
export function makeTrustedProxies(entries: readonly string[]): (entry: string | undefined) => boolean {
  // One list per family: in Node's BlockList `::/0` contains IPv4 addresses too.
  const trusted = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const network of entries.flatMap((entry) => RANGES[entry] ?? [entry])) {
    const [text = '', bits] = network.split('/');
    const address = readAddress(text);
    if (!address) throw new Error(`trusted proxy ${network} is not an address`);
    const { family } = address;
    // A network of IPv4-mapped addresses counts as one of IPv4.
    const offset = family === 'ipv4' && text.includes(':') ? MAPPED_BITS : 0;
    const prefix = bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits) - offset;
    if (prefix < 0) trusted.ipv6.addSubnet('::', Number(bits), 'ipv6');
    else trusted[family].addSubnet(address.text, prefix, family);
  }
  return (entry) => {
    const address = readAddress(entry);
    return address !== null && trusted[address.family].check(address.text, address.family);
  };
}
