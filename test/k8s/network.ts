import { BlockList } from 'node:net';
import { allOf, selects, type Labels, type Manifest, type NetworkPeer, type NetworkRule } from './kinds.ts';

/** A pod, or an address that is no pod's (no labels). */
export interface Peer {
  namespace: string;
  namespaceLabels?: Labels;
  labels?: Labels;
  /** Its address, if it is not a pod's. */
  address?: string;
  /** Names of its ports. */
  ports?: Record<string, number>;
}

/**
 * Whether the NetworkPolicies of the manifests, all in `namespace`, allow a TCP connection to a port of another pod.
 * A pod that no policy selects is unrestricted. Otherwise at least one rule must match, at both ends.
 */
export function isAllowed(
  manifests: Manifest[],
  namespace: string,
  from: Peer,
  to: Peer,
  port: number,
): boolean {
  const policies = allOf(manifests, 'NetworkPolicy').map(({ spec }) => spec);
  const passes = (own: Peer, other: Peer, direction: 'ingress' | 'egress') => {
    const type = direction === 'ingress' ? 'Ingress' : 'Egress';
    const those = policies.filter(
      ({ podSelector, policyTypes }) =>
        own.namespace === namespace &&
        own.labels &&
        policyTypes.includes(type) &&
        selects(podSelector, own.labels),
    );
    const rules = those.flatMap((policy) => policy[direction] ?? []);
    const fits = (rule: NetworkRule) => {
      const peers = direction === 'ingress' ? rule.from : rule.to;
      return (
        (!peers || peers.some((peer) => includes(peer, namespace, other))) &&
        (!rule.ports || rule.ports.some((it) => isPort(it, to, port)))
      );
    };
    return those.length === 0 || rules.some(fits);
  };
  return passes(from, to, 'egress') && passes(to, from, 'ingress');
}

function includes(
  { ipBlock, podSelector, namespaceSelector }: NetworkPeer,
  namespace: string,
  peer: Peer,
): boolean {
  if (ipBlock) {
    const { address } = peer;
    const { cidr, except = [] } = ipBlock;
    return address !== undefined && isIn(cidr, address) && !except.some((each) => isIn(each, address));
  }
  if (!peer.labels) return false;
  const isThere = namespaceSelector
    ? selects(namespaceSelector, { ...peer.namespaceLabels, 'kubernetes.io/metadata.name': peer.namespace })
    : peer.namespace === namespace;
  return isThere && selects(podSelector ?? {}, peer.labels);
}

function isIn(cidr: string, address: string): boolean {
  const [base = '', length] = cidr.split('/');
  const block = new BlockList();
  block.addSubnet(base, Number(length));
  return block.check(address);
}

function isPort(
  { port: wanted, protocol = 'TCP' }: { port: number | string; protocol?: string },
  to: Peer,
  port: number,
) {
  return protocol === 'TCP' && (typeof wanted === 'number' ? wanted : to.ports?.[wanted]) === port;
}
