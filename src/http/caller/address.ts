import { BlockList, isIP, isIPv4 } from 'node:net';
import type { FastifyRequest } from 'fastify';

/** A normalised address: without port, brackets and zone; IPv4 in IPv6 becomes IPv4. */
export interface Address {
  family: 'ipv4' | 'ipv6';
  /** Four bytes, or eight groups of 16 bits. */
  parts: number[];
  text: string;
}

/** The bucket of every address that cannot be read. */
export const UNREADABLE = 'unknown';

/** `1.2.3.4:5678`, `[2001:db8::1]`, `[2001:db8::1]:99`: proxies use different forms. */
const WITH_PORT = /^(?:\[([^\]]*)\]|([\d.]+))(?::\d{1,5})?$/;
/** The first six groups of an IPv4 address in IPv6 (RFC 4291, section 2.5.5.2). */
const MAPPED = '0:0:0:0:0:65535';

/** Reads a peer's address, or one entry of X-Forwarded-For; null if it is not an address. */
export function readAddress(entry: string | undefined): Address | null {
  // A socket's own address, usually.
  if (isIPv4(entry ?? '')) return ipv4((entry ?? '').split('.').map(Number));
  const match = WITH_PORT.exec(entry?.trim() ?? '');
  const text = (match?.[1] ?? match?.[2] ?? entry ?? '').trim().replace(/%.*$/s, '').toLowerCase();
  if (isIP(text) === 0) return null;
  if (isIPv4(text)) return ipv4(text.split('.').map(Number));
  const groups = groupsOf(text);
  if (groups.slice(0, 6).join(':') !== MAPPED) return { family: 'ipv6', parts: groups, text };
  return ipv4(groups.slice(6).flatMap((group) => [group >> 8, group & 255]));
}

/** The caller's address, behind the proxies that TRUST_PROXY lists; null if it cannot be read. */
export function addressOf({ ip }: FastifyRequest): Address | null {
  return readAddress(ip);
}

/**
 * Whether a relay (a proxy or a backend) forwards an address that does not count: TRUST_PROXY does not list the relay,
 * or the relay sends only `Forwarded`. All its users then look like the relay itself. A client that makes the header up
 * is taken for a relay too.
 */
export function isHiddenByRelay({ headers, ips }: FastifyRequest): boolean {
  if (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined) return false;
  // If the peer is trusted, `ips` lists the peer and the addresses before it.
  return (ips?.length ?? 1) <= 1;
}

/** Whether the peer is on this host and no relay says that it forwards. */
export function isLocal(request: FastifyRequest): boolean {
  const { 'x-forwarded-for': list, forwarded } = request.headers;
  const { text = '' } = addressOf(request) ?? {};
  return list === undefined && forwarded === undefined && (text === '::1' || text.startsWith('127.'));
}

/** Whether an address is private, shared (RFC 6598), loopback or link-local. */
export function isPrivate({ text, family }: Address): boolean {
  return PRIVATE.check(text, family);
}

const PRIVATE = privateAddresses();

function privateAddresses(): BlockList {
  const list = new BlockList();
  for (const [network, bits] of [
    ['10.0.0.0', 8],
    ['100.64.0.0', 10],
    ['127.0.0.0', 8],
    ['169.254.0.0', 16],
    ['172.16.0.0', 12],
    ['192.168.0.0', 16],
  ] as const) {
    list.addSubnet(network, bits, 'ipv4');
  }
  list.addAddress('::1', 'ipv6');
  list.addSubnet('fc00::', 7, 'ipv6');
  list.addSubnet('fe80::', 10, 'ipv6');
  return list;
}

/**
 * The key by which the addresses of a network take turns: an IPv4 address, or the /64 of an IPv6 address, since privacy
 * extensions change the rest. All unreadable addresses share one key.
 */
export function callerAddress(request: FastifyRequest): string {
  const address = addressOf(request);
  return address ? networkText(address, { ipv4: 4, ipv6: 4 }) : UNREADABLE;
}

/** The network of an address, of which the first `kept` parts stay. */
export function networkText({ family, parts }: Address, kept: Record<Address['family'], number>): string {
  const count = kept[family];
  if (family === 'ipv6') {
    const groups = parts.slice(0, count).map((group) => group.toString(16));
    return `${groups.join(':')}::/${16 * count}`;
  }
  const bytes = parts.map((byte, i) => (i < count ? byte : 0)).join('.');
  return count === 4 ? bytes : `${bytes}/${8 * count}`;
}

function ipv4(parts: number[]): Address {
  return { family: 'ipv4', parts, text: parts.join('.') };
}

/** @param text a valid IPv6 address in lower case, without a zone. */
function groupsOf(text: string): number[] {
  const hex = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number);
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  });
  const [head = [], tail] = hex.split('::').map((part) => part.split(':').filter((group) => group !== ''));
  const groups = tail === undefined ? head : [...head, ...zeros(8 - head.length - tail.length), ...tail];
  return groups.map((group) => parseInt(group, 16));
}

function zeros(count: number): string[] {
  return Array.from({ length: count }, () => '0');
}

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
