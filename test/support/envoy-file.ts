import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

const FILE = new URL('../../../deploy/envoy/ext-authz.yaml', import.meta.url).pathname;

export interface StringMatcher {
  exact?: string;
  prefix?: string;
  safe_regex?: { regex: string };
}

export interface ExtAuthz {
  failure_mode_allow: boolean;
  status_on_error?: { code: string };
  allowed_headers?: { patterns: StringMatcher[] };
  http_service: {
    server_uri: { cluster: string };
    path_prefix?: string;
    path_override?: string;
    authorization_response: { allowed_upstream_headers: { patterns: StringMatcher[] } };
  };
}

export interface Route {
  match: { path?: string } & Pick<StringMatcher, 'prefix' | 'safe_regex'>;
  route: { cluster: string };
  request_headers_to_remove?: string[];
  typed_per_filter_config?: Record<string, { disabled: boolean }>;
}

export interface LocalReply {
  filter: { and_filter: { filters: [{ response_flag_filter: { flags: string[] } }, StatusFilter] } };
  headers_to_add: { header: { key: string; value: string } }[];
  body_format_override: { content_type: string; json_format: object };
}

interface StatusFilter {
  status_code_filter: { comparison: { op: string; value: { default_value: number } } };
}

export interface Manager {
  normalize_path: boolean;
  merge_slashes: boolean;
  path_with_escaped_slashes_action: string;
  early_header_mutation_extensions: {
    typed_config: { mutations: { remove_on_match: { key_matcher: StringMatcher } }[] };
  }[];
  http_filters: { name: string; typed_config: object }[];
  local_reply_config: { mappers: LocalReply[] };
  route_config: { virtual_hosts: { routes: Route[] }[] };
}

interface Cluster {
  name: string;
  load_assignment: { endpoints: { lb_endpoints: { endpoint: Endpoint }[] }[] };
}

interface Endpoint {
  address: { socket_address: { address: string; port_value: number } };
}

interface Bootstrap {
  static_resources: {
    listeners: { filter_chains: { filters: { typed_config: Manager }[] }[] }[];
    clusters: Cluster[];
  };
}

/** The parts of deploy/envoy/ext-authz.yaml that decide about a request. */
export function readEnvoyFile(edit: (text: string) => string = (text) => text) {
  const { static_resources: resources } = parse(edit(readFileSync(FILE, 'utf8'))) as Bootstrap;
  const manager = resources.listeners[0]?.filter_chains[0]?.filters[0]?.typed_config;
  const [extAuthz, router] = manager?.http_filters ?? [];
  if (!manager || extAuthz?.name !== 'envoy.filters.http.ext_authz')
    throw new Error('ext_authz must come first');
  if (router?.name !== 'envoy.filters.http.router') throw new Error('the router must come second');
  const routes = manager.route_config.virtual_hosts[0]?.routes ?? [];
  /** The cluster's address in the file: http://NAME:PORT. */
  const addressOf = (cluster: string): string => {
    const found = resources.clusters.find(({ name }) => name === cluster)?.load_assignment;
    const where = found?.endpoints[0]?.lb_endpoints[0]?.endpoint.address.socket_address;
    return `http://${where?.address}:${where?.port_value}`;
  };
  return { manager, extAuthz: extAuthz.typed_config as ExtAuthz, routes, addressOf };
}
