import { isDeepStrictEqual } from 'node:util';
import { posix } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { readDocument } from '../support/documents.ts';
import { aliasesOf, NAMES, OVERRIDES, withAudience } from '../support/identity-headers.ts';
import { decoded, spellings, waysOut } from '../support/path-spellings.ts';
import { ALL_PATHS, PUBLIC_PATHS } from '../support/public-paths.ts';

// Neither program is in Debian or npm. So this reads their files: what each drops, asks and opens. forward-auth.test.ts runs
// nginx and Caddy.

const AUDIENCE = '/api/auth/audiences/orders/verify';
const SCOPED = '/api/auth/scopes/reports:read/verify';
const SCOPED_AUDIENCE = '/api/auth/audiences/orders/scopes/reports:read/verify';
/** A client's headers that are none of ours. */
const ORDINARY = [
  'accept',
  'content-type',
  'cookie',
  'origin',
  'range',
  'traceparent',
  'x-custom',
  'x-forwarded-for',
];

interface Router {
  rule: string;
  priority?: number;
  [option: string]: unknown;
}

interface Traefik {
  http: { routers: Record<string, Router>; middlewares: object };
}

test('Traefik’s files', async (t) => {
  const text = readDocument('deploy/traefik/latchkey.yaml');
  const { http } = parse(text) as Traefik;
  const removed = (names: readonly string[]) => ({
    headers: { customRequestHeaders: Object.fromEntries(names.map((name) => [name, ''])) },
  });

  await t.test('trust no client’s headers, and refuse no spelling of a path', (t) => {
    const allowed = ['Slash', 'BackSlash', 'Semicolon', 'Percent', 'QuestionMark', 'Hash'];
    const { entryPoints } = parse(readDocument('deploy/traefik/traefik.yaml')) as { entryPoints: object };
    t.match(entryPoints, {
      web: {
        http: {
          // Names with anything but letters, digits and dashes: https://doc.traefik.io/traefik/security/header-aliases/
          aliasHeadersStrategy: 'delete',
          sanitizePath: true,
          encodedCharacters: Object.fromEntries(allowed.map((name) => [`allowEncoded${name}`, true])),
        },
      },
    });
    t.notMatch(JSON.stringify(entryPoints), 'forwardedHeaders', 'X-Forwarded-Uri and the like are dropped');
    t.end();
  });

  await t.test('drop identity and token, and ask verify with two headers', (t) => {
    // forwardAuth passes any answer but 2xx on as it is, and no option of it says otherwise.
    const forwardAuth = {
      address: 'http://127.0.0.1:8082/api/auth/verify',
      authRequestHeaders: ['Authorization', 'X-Request-Id'],
      authResponseHeadersRegex: '^X-Auth-',
    };
    const at = (path: string) => ({
      forwardAuth: { ...forwardAuth, address: `http://127.0.0.1:8082${path}` },
    });
    const middlewares = {
      'signed-in': { forwardAuth },
      'may-read-reports': at(SCOPED),
      'no-identity': removed([...NAMES, ...OVERRIDES]),
      'no-token': removed(['Authorization']),
    };
    t.strictSame(http.middlewares, middlewares);
    const edited = parse(withAudience(text)) as Traefik;
    t.strictSame(edited.http, {
      ...http,
      middlewares: { ...middlewares, 'signed-in': at(AUDIENCE), 'may-read-reports': at(SCOPED_AUDIENCE) },
    });
    t.end();
  });

  await t.test('send each path through what is meant for it', (t) => {
    const isOfChain = ([option]: [string, unknown]) => !['rule', 'priority'].includes(option);
    const chains = Object.entries(http.routers).map(([name, router]) => [
      name,
      Object.fromEntries(Object.entries(router).filter(isOfChain)),
    ]);
    t.strictSame(Object.fromEntries(chains), {
      latchkey: { entryPoints: ['web'], service: 'latchkey' },
      public: { entryPoints: ['web'], middlewares: ['no-identity', 'no-token'], service: 'app' },
      reports: {
        entryPoints: ['web'],
        middlewares: ['no-identity', 'may-read-reports', 'no-token'],
        service: 'app',
      },
      app: { entryPoints: ['web'], middlewares: ['no-identity', 'signed-in', 'no-token'], service: 'app' },
      verify: { entryPoints: ['verify'], service: 'latchkey' },
    });
    const { verify, ...web } = http.routers;
    t.equal(verify?.rule, 'PathPrefix(`/`)');
    const routers = Object.entries(web).sort(
      ([, one], [, other]) => (other.priority ?? 0) - (one.priority ?? 0),
    );
    opensPlainNamesAlone(t, (path) => routers.find(([, { rule }]) => isTraefikMatch(rule, path))?.[0]);
    t.end();
  });
});

/** Of the request that is matched here, which is a GET without Upgrade. */
const READS = 'Method(`GET`) && !HeaderRegexp(`Upgrade`, `.*`) && ';

function isTraefikMatch(rule: string, path: string): boolean {
  return rule.split(' || ').some((part) => {
    if (part.startsWith(READS)) return isTraefikMatch(part.slice(READS.length), path);
    const [, kind, value = ''] = /^(Path|PathPrefix|PathRegexp)\(`([^`]+)`\)$/.exec(part) ?? [];
    if (kind === undefined) throw new Error(`unknown rule: ${part}`);
    if (kind === 'PathRegexp') return new RegExp(value).test(path);
    return kind === 'Path' ? path === value : path.startsWith(value);
  });
}

interface Matcher {
  path?: string;
  prefix?: string;
  safe_regex?: { regex: string };
  headers?: object[];
}

interface Route {
  match: Matcher;
  route: { cluster: string };
  request_headers_to_remove?: string[];
  typed_per_filter_config?: Record<string, object>;
}

interface Manager {
  early_header_mutation_extensions: {
    typed_config: { mutations: { remove_on_match?: { key_matcher: Matcher }; remove?: string }[] };
  }[];
  http_filters: [
    { name: string; typed_config: { http_service: object; allowed_headers: object } },
    { name: string },
  ];
  local_reply_config: object;
  route_config: { virtual_hosts: [{ routes: Route[] }] };
}

interface Bootstrap {
  static_resources: {
    listeners: [{ filter_chains: [{ filters: [{ typed_config: Manager }] }] }];
  };
}

test('Envoy’s file', async (t) => {
  const text = readDocument('deploy/envoy/ext-authz.yaml');
  const bootstrap = parse(text) as Bootstrap;
  const manager = managerOf(bootstrap);
  const [extAuthz, router] = manager.http_filters;
  const [host] = manager.route_config.virtual_hosts;

  await t.test('normalizes a path before it is matched', (t) => {
    t.match(manager, {
      use_remote_address: true,
      normalize_path: true,
      merge_slashes: true,
      path_with_escaped_slashes_action: 'KEEP_UNCHANGED',
    });
    t.end();
  });

  await t.test('drops a client’s identity and overrides in any spelling', (t) => {
    const mutations = manager.early_header_mutation_extensions.flatMap(
      ({ typed_config }) => typed_config.mutations,
    );
    // Envoy has names in lower case.
    const isDropped = (name: string) =>
      mutations.some(({ remove_on_match: pattern, remove, ...others }) => {
        if (Object.keys(others).length > 0) throw new Error(`unknown: ${Object.keys(others).join()}`);
        return remove === name.toLowerCase() || (pattern && isMatch(pattern.key_matcher, name.toLowerCase()));
      });
    const dropped = [...NAMES, ...OVERRIDES, 'X-Forwarded-Host'];
    const ours = [...dropped, 'X-Auth-Groups', ...aliasesOf(dropped).flatMap(({ names }) => names)];
    t.strictSame(
      ours.filter((name) => !isDropped(name)),
      [],
    );
    t.strictSame([...ORDINARY, 'authorization', ':path', ':method'].filter(isDropped), []);
    t.end();
  });

  await t.test('asks verify with two headers, and an outage is 503', (t) => {
    const exact = (name: string) => ({ exact: name.toLowerCase() });
    // Without `allowed_client_headers`, a refusal keeps all its headers: the challenge too.
    const service = {
      server_uri: { uri: 'http://latchkey:3000', cluster: 'latchkey', timeout: '2s' },
      path_override: '/api/auth/verify',
      authorization_response: { allowed_upstream_headers: { patterns: NAMES.map(exact) } },
    };
    t.strictSame([extAuthz.name, router.name], ['envoy.filters.http.ext_authz', 'envoy.filters.http.router']);
    t.equal(manager.http_filters.length, 2);
    t.match(extAuthz.typed_config, {
      failure_mode_allow: false,
      status_on_error: { code: 'ServiceUnavailable' },
    });
    // Envoy sends Authorization and Host without being told.
    t.strictSame(extAuthz.typed_config.allowed_headers, { patterns: [exact('X-Request-Id')] });
    const servicesOf = ({ http_filters, route_config: { virtual_hosts } }: Manager) => [
      http_filters[0].typed_config.http_service,
      ...virtual_hosts[0].routes.flatMap(({ typed_per_filter_config: config = {} }) =>
        Object.values(config).flatMap((each) => {
          const { check_settings: settings } = each as { check_settings?: { http_service: object } };
          return settings ? [settings.http_service] : [];
        }),
      ),
    ];
    t.strictSame(servicesOf(manager), [service, { ...service, path_override: SCOPED }]);
    t.strictSame(servicesOf(managerOf(parse(withAudience(text)) as Bootstrap)), [
      { ...service, path_override: AUDIENCE },
      { ...service, path_override: SCOPED_AUDIENCE },
    ]);
    const unavailable = { type: 'urn:latchkey:error:unavailable', title: 'Unavailable', status: 503 };
    const value = { default_value: 503, runtime_key: 'latchkey_away' };
    const filters = [
      { response_flag_filter: { flags: ['UAEX'] } },
      { status_code_filter: { comparison: { op: 'EQ', value } } },
    ];
    t.strictSame(manager.local_reply_config, {
      mappers: [
        {
          filter: { and_filter: { filters } },
          headers_to_add: [
            { header: { key: 'Retry-After', value: '1' } },
            { header: { key: 'Cache-Control', value: 'no-store' } },
          ],
          body_format_override: {
            content_type: 'application/problem+json',
            json_format: { ...unavailable, code: 'unavailable' },
          },
        },
      ],
    });
    t.end();
  });

  await t.test('sends each path where it is meant to go', (t) => {
    const open = {
      'envoy.filters.http.ext_authz': {
        '@type': typeOf('filters.http.ext_authz.v3.ExtAuthzPerRoute'),
        disabled: true,
      },
    };
    const type = typeOf('filters.http.ext_authz.v3.ExtAuthzPerRoute');
    const http_service = { ...extAuthz.typed_config.http_service, path_override: SCOPED };
    const scoped = { 'envoy.filters.http.ext_authz': { '@type': type, check_settings: { http_service } } };
    /** What a route may be, besides which paths it takes. */
    const kinds = {
      latchkey: { route: { cluster: 'latchkey' }, typed_per_filter_config: open },
      public: {
        route: { cluster: 'app' },
        request_headers_to_remove: ['authorization'],
        typed_per_filter_config: open,
      },
      reports: {
        route: { cluster: 'app' },
        request_headers_to_remove: ['authorization'],
        typed_per_filter_config: scoped,
      },
      app: { route: { cluster: 'app' }, request_headers_to_remove: ['authorization'] },
    };
    const sorted = host.routes.map(({ match, ...rest }) => {
      const kind = Object.entries(kinds).find(([, it]) => isDeepStrictEqual(it, rest))?.[0];
      return { match, kind: kind ?? JSON.stringify(rest) };
    });
    opensPlainNamesAlone(t, (path) => sorted.find(({ match }) => isMatch(match, path))?.kind);
    t.end();
  });
});

function managerOf({ static_resources: { listeners } }: Bootstrap): Manager {
  return listeners[0].filter_chains[0].filters[0].typed_config;
}

function typeOf(name: string): string {
  return `type.googleapis.com/envoy.extensions.${name}`;
}

const READS_AT_ENVOY = [
  { name: ':method', string_match: { safe_regex: { regex: 'GET|HEAD' } } },
  { name: 'upgrade', present_match: true, invert_match: true },
];

/** A regular expression must match the whole text, and no matcher sees the query. */
function isMatch({ path, prefix, safe_regex: pattern, headers, ...others }: Matcher, text: string): boolean {
  // Of a GET without Upgrade.
  if (headers && !isDeepStrictEqual(headers, READS_AT_ENVOY)) throw new Error('unknown headers');
  if (Object.keys(others).length > 0) throw new Error(`unknown: ${Object.keys(others).join()}`);
  if (path !== undefined) return text === path;
  if (prefix !== undefined) return text.startsWith(prefix);
  return new RegExp(`^(?:${pattern?.regex ?? ''})$`).test(text);
}

/**
 * The API's public paths lead to Latchkey. Only plain names below /public/ need no token, and only such names below
 * /reports/ take a limited one.
 * @param routeOf the name of the route that a path without its query takes
 */
function opensPlainNamesAlone(t: Test, routeOf: (path: string) => string | undefined): void {
  const to = (route: string) => ALL_PATHS.filter((path) => routeOf(path) === route);
  t.strictSame(to('latchkey'), PUBLIC_PATHS);
  t.strictSame(
    to('app'),
    ALL_PATHS.filter((path) => !PUBLIC_PATHS.includes(path)),
  );
  for (const name of ['public', 'reports']) {
    for (const path of ['/', '/x', '/a-b/c_d.e~f/']) t.equal(routeOf(`/${name}${path}`), name, path);
    for (const path of ['', 'x', '/.x', '/a%20b', '/..;/orders'])
      t.equal(routeOf(`/${name}${path}`), 'app', path);
    t.equal(routeOf(`/${name.toUpperCase()}/x`), 'app');
    assertNoWayOut(t, name, routeOf);
  }
}

function assertNoWayOut(t: Test, name: string, routeOf: (path: string) => string | undefined): void {
  const seed = Number(process.env.TEST_SEED ?? 1);
  const received = spellings(seed, 1500, name).flatMap((target) => {
    const [path = ''] = target.split('?');
    // The application gets the path as a proxy has normalized it, if it has. Versions differ in what they decode before
    // they match, so what any of them matches counts.
    const forms = [path, posix.normalize(path.replaceAll(/%2e/gi, '.')), new URL(`http://x${path}`).pathname];
    return forms.filter((form) => [form, decoded(form)].some((each) => routeOf(each) === name));
  });
  t.ok(received.length > 10, `${received.length} of them are ${name}`);
  t.strictSame(
    received.filter((path) => waysOut(path, name).length > 0),
    [],
    `lead out of /${name}/; seed ${seed}`,
  );
}
