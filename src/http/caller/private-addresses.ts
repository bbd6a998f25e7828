import { BlockList } from 'node:net';
import type { Address } from './address.ts';

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
