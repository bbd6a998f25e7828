import type { Test } from 'tap';
import {
  forward,
  setHeader,
  startEmulatedProxy,
  type Header,
  type Message,
  type Reply,
} from './emulated-proxy.ts';
import { readEnvoyFile, type Route, type StringMatcher } from './envoy-file.ts';

/** Headers that an authorization request always holds (ext_authz.proto, ExtAuthz.allowed_headers). */
const ALWAYS_SENT: StringMatcher[] = [{ exact: 'authorization' }, { exact: 'host' }];
const ESCAPED_SLASH = /^[^?]*%(2f|5c)/i;
const STATUS: Record<string, number> = { ServiceUnavailable: 503, Forbidden: 403 };

/**
 * Envoy is not available here. This emulates its documented behaviour for the options of deploy/envoy/ext-authz.yaml:
 * https://www.envoyproxy.io/docs/envoy/latest/api-v3/extensions/filters/http/ext_authz/v3/ext_authz.proto
 */
export async function startEmulatedEnvoy(
  t: Test,
  upstreams: Readonly<Record<string, string>>,
  edit?: (text: string) => string,
) {
  const { manager, extAuthz, routes, addressOf } = readEnvoyFile(edit);
  const clusterAt = (name: string): string => {
    const url = upstreams[addressOf(name)];
    if (url === undefined) throw new Error(`there is no ${addressOf(name)}`);
    return url;
  };

  return startEmulatedProxy(t, async (arrived) => {
    const { path_with_escaped_slashes_action: escapedSlashes } = manager;
    // Envoy refuses a path with a fragment unless a runtime flag is changed.
    if (
      arrived.path.includes('#') ||
      (escapedSlashes !== 'KEEP_UNCHANGED' && ESCAPED_SLASH.test(arrived.path))
    )
      return { status: 400, headers: [], body: '' };
    const message = { ...arrived, path: normalized(arrived.path), headers: cleaned(arrived.headers) };
    const route = routes.find(({ match }) => isMatch(match, message.path));
    if (!route) return { status: 404, headers: [], body: '' };
    const checked = isDisabled(route) ? message : await check(message);
    if ('status' in checked) return checked;
    const removed = route.request_headers_to_remove ?? [];
    const headers = removed.reduce((left, name) => setHeader(left, name), checked.headers);
    const to = clusterAt(route.route.cluster);
    return forward(to, { ...checked, headers }).catch(() => localReply(503, 'UF'));
  });

  /** Resolves dot segments and merges slashes. Percent-encoded characters stay. */
  function normalized(path: string): string {
    const [bare = '', ...query] = path.split('?');
    if (!manager.normalize_path || !manager.merge_slashes) return path;
    const { pathname } = new URL(`http://x${bare}`);
    return [pathname.replace(/\/{2,}/g, '/'), ...query].join('?');
  }

  /** Header names are in lower case from here on. */
  function cleaned(headers: Header[]): Header[] {
    const small = headers.map(([name, value]) => [name.toLowerCase(), value] as const);
    const mutations = manager.early_header_mutation_extensions.flatMap(
      ({ typed_config }) => typed_config.mutations,
    );
    const matchers = mutations.map(({ remove_on_match }) => remove_on_match.key_matcher);
    return small.filter(([name]) => !isAny(matchers, name));
  }

  /** A 5xx or no answer is an error. Any other status except 200 is a denial, and goes to the client. */
  async function check(message: Message): Promise<Message | Reply> {
    const { http_service: service, allowed_headers: allowed } = extAuthz;
    const sent = [...ALWAYS_SENT, ...(allowed?.patterns ?? [])];
    const question = {
      ...message,
      path: service.path_override ?? (service.path_prefix ?? '') + message.path,
      headers: message.headers.filter(([name]) => isAny(sent, name)),
      body: Buffer.alloc(0),
    };
    const answer = await forward(clusterAt(service.server_uri.cluster), question).catch(() => null);
    if (answer === null || answer.status > 499) {
      if (extAuthz.failure_mode_allow) return message;
      return localReply(STATUS[extAuthz.status_on_error?.code ?? 'Forbidden'] ?? 0, 'UAEX');
    }
    if (answer.status !== 200) return answer;
    const { patterns } = service.authorization_response.allowed_upstream_headers;
    const told = answer.headers.filter(([name]) => isAny(patterns, name.toLowerCase()));
    const headers = told.reduce((all, [name, value]) => setHeader(all, name, value), message.headers);
    return { ...message, headers };
  }

  function localReply(status: number, flag: string): Reply {
    const mapper = manager.local_reply_config.mappers.find(({ filter }) => {
      const [{ response_flag_filter: flags }, { status_code_filter: code }] = filter.and_filter.filters;
      if (code.comparison.op !== 'EQ') throw new Error('a comparison that is not emulated');
      return flags.flags.includes(flag) && code.comparison.value.default_value === status;
    });
    if (!mapper) return { status, headers: [], body: '' };
    const { content_type: type, json_format: body } = mapper.body_format_override;
    const added = mapper.headers_to_add.map(({ header }) => [header.key, header.value] as const);
    return { status, headers: [...added, ['content-type', type]], body: JSON.stringify(body) };
  }
}

function isDisabled({ typed_per_filter_config: config }: Route): boolean {
  return config?.['envoy.filters.http.ext_authz']?.disabled === true;
}

/** No matcher sees the query. */
function isMatch({ path, ...matcher }: Route['match'], target: string): boolean {
  const [bare = ''] = target.split('?');
  return isAny([path === undefined ? matcher : { exact: path }], bare);
}

/** A regex must match the whole text. */
function isAny(matchers: readonly StringMatcher[], text: string): boolean {
  return matchers.some(({ exact, prefix, safe_regex: pattern }) => {
    if (exact !== undefined) return text === exact;
    if (prefix !== undefined) return text.startsWith(prefix);
    if (!pattern) throw new Error('a matcher that is not emulated');
    return new RegExp(`^(?:${pattern.regex})$`).test(text);
  });
}
