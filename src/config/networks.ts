import { BlockList, isIP } from 'node:net';
import type { z } from 'zod';

/** Named address ranges that TRUST_PROXY accepts. */
const RANGES = ['loopback', 'linklocal', 'uniquelocal'];
/** Networks that contain every address of their family. */
const EVERY_ADDRESS = /^[\d.:a-f%]+\/0+$/i;

/** Addresses and networks, separated by commas. */
export function readNetworks(value: string, context: z.RefinementCtx): BlockList | null {
  const networks = new BlockList();
  for (const entry of listOf(value)) {
    const network = readNetwork(entry);
    if (!network) {
      context.addIssue({
        code: 'custom',
        message: 'must be addresses or networks (10.0.0.0/8), separated by commas',
      });
      return null;
    }
    networks.addSubnet(network.address, network.bits, network.family);
  }
  return networks;
}

/** The proxies whose X-Forwarded-For counts; null for none, or after an issue was added to `context`. */
export function readProxies(value: string, context: z.RefinementCtx): string[] | null {
  if (value === 'false') return null;
  const entries = listOf(value);
  if (entries.length > 0 && entries.every((entry) => RANGES.includes(entry) || readNetwork(entry)))
    return entries;
  context.addIssue({
    code: 'custom',
    message:
      'must be false, or addresses, networks (10.0.0.0/8), loopback, linklocal or uniquelocal, separated by commas',
  });
  return null;
}

/** Warnings about TRUST_PROXY, for the log. */
export function proxyWarnings(proxies: readonly string[] | null): string[] {
  return (proxies ?? [])
    .filter((entry) => EVERY_ADDRESS.test(entry))
    .map(
      (entry) =>
        `TRUST_PROXY lists ${entry}: every client may choose its own address in X-Forwarded-For, ` +
        'and evade the limits per address. List only your proxies',
    );
}

/** An address or a network; null if it is neither. */
function readNetwork(entry: string) {
  const [address = '', bits, ...rest] = entry.split('/');
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  const max = family === 'ipv6' ? 128 : 32;
  const isPrefix = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= max);
  if (isIP(address) === 0 || rest.length > 0 || !isPrefix) return null;
  return { address, family, bits: bits === undefined ? max : Number(bits) } as const;
}

export function listOf(value: string): string[] {
  return value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}
