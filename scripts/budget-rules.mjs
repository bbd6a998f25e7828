// Writes the series of the error budgets between two comments of deploy/prometheus/rules.yaml, as a part of `npm run k8s`.
// Their selectors come from the classes of operations (src/http/openapi/operation-classes.ts) and from the paths of
// docs/openapi.json. They select by method and route, so replicas of older versions count too.

/** The shorter windows page. */
const WINDOWS = { '5m': true, '30m': true, '1h': true, '6h': false, '3d': false };
const BY = 'cluster, namespace, service';
const REQUESTS = 'http_request_duration_seconds';

/** Has no error budget (operation-classes.ts says why). */
const WITHOUT = ['feed'];

/** Have no series of the shorter windows, so that their budgets do not page. */
const SILENT = ['account', 'documents'];

/** Classes with an objective for their time; a login takes that of a hash. */
const TIMED = ['session', 'verify'];

/** Refreshes that had to wait for another one of their session are 503 by contract: one client could page with them. */
const HELD = 'latchkey_refreshes_total{job="latchkey", outcome="held"}';

/**
 * @param text the rules.
 * @param classes operation ids by class.
 * @param document OpenAPI.
 * @returns the rules with the series of the budgets.
 */
export function withBudgets(text, classes, document) {
  const [whole, begin] = /^( *# From here .*\n)[^]*?(?=^ *# Until here)/m.exec(text) ?? [];
  if (whole === undefined) throw new Error('the rules lack `# From here …` or `# Until here`');
  return text.replace(whole, () => begin + series(selectors(classes, document)).join(''));
}

/**
 * The requests of each class: the label `class`, and a list of matchers.
 * @throws Error if an id of a class is no operation.
 */
function selectors(classes, document) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  );
  return Object.entries(classes)
    .filter(([name]) => !WITHOUT.includes(name))
    .map(([name, ids]) => {
      const routes = new Map();
      for (const id of ids) {
        const operation = operations.find(({ operationId }) => operationId === id);
        if (!operation) throw new Error(`${id} of the class ${name} is no operation`);
        const methods = methodsOf(operation);
        routes.set(methods, [...(routes.get(methods) ?? []), routeOf(operation)]);
      }
      const matchers = [...routes].map(([methods, all]) => `${methods}route=~"${oneOf(all)}"`);
      return { name, matchers };
    });
}

function methodsOf({ method, 'x-any-method': any, 'x-head': head }) {
  if (any) return '';
  return head ? `method=~"${method.toUpperCase()}|HEAD", ` : `method="${method.toUpperCase()}", `;
}

/** As the router writes them in the label. */
function routeOf({ path, 'x-any-path-below': below }) {
  const route = path.replaceAll(/\{(\w+)\}/g, ':$1').replaceAll('.', '[.]');
  return below ? `${route}(/[*])?` : route;
}

/** Matches one of the routes; what all begin with is written once. */
function oneOf(routes) {
  if (routes.length === 1) return routes[0];
  const words = routes.map((route) => route.split(/(?<=[/])/));
  let common = 0;
  while (words.every((each) => each.length > common + 1 && each[common] === words[0][common])) common++;
  const rest = words.map((each) => each.slice(common).join(''));
  return `${words[0].slice(0, common).join('')}(${rest.join('|')})`;
}

function series(classes) {
  const timed = classes.filter(({ name }) => TIMED.includes(name));
  const paging = classes.filter(({ name }) => !SILENT.includes(name));
  return [
    ...Object.entries(WINDOWS).flatMap(([window, pages]) => {
      const judged = pages ? paging : classes;
      const rate = (selector) => `rate(${selector}[${window}])`;
      const quick = total(timed, (matcher) =>
        rate(`${REQUESTS}_bucket{${matcher}, status=~"2..", le="0.1"}`),
      );
      return [
        record(`route:latchkey_answers:rate${window}`, total(judged, answered(rate, '2..|5..'))),
        record(`route:latchkey_failures:rate${window}`, failures(judged, rate)),
        record(`route:latchkey_slow:rate${window}`, `${total(timed, answered(rate, '2..'))}\n- ${quick}`),
      ];
    }),
    record('route:latchkey_successes:count30m', total(paging, answered(grown('30m'), '2..'))),
    record('route:latchkey_failures:count30m', failures(paging, grown('30m'))),
    record('route:latchkey_failures:count5m', failures(paging, grown('5m'))),
  ];
}

/**
 * By how much a counter has grown. `increase` misses the first value of a series, which is born with its first answer. One that
 * was there within the 6 hours before is not born, but comes back after a gap of Prometheus.
 */
function grown(window) {
  return (selector) =>
    `(${selector} unless last_over_time(${selector}[6h] offset ${window}) or increase(${selector}[${window}]))`;
}

const answered = (wrap, status) => (matcher) => wrap(`${REQUESTS}_count{${matcher}, status=~"${status}"}`);

function failures(classes, wrap) {
  const held = `-1 * ${wrap(HELD)}`;
  const branch = labelled(labelled(held, 'class', 'session'), 'route', '/api/auth/refresh');
  return `clamp_min(${total(classes, answered(wrap, '5..'), branch)}, 0)`;
}

/** @param counted of a matcher. @param more a further summand. */
function total(classes, counted, ...more) {
  const summands = classes.flatMap(({ name, matchers }) =>
    matchers.map((matcher) => labelled(counted(`job="latchkey", ${matcher}`), 'class', name)),
  );
  return `sum by (${BY}, class, route) (\n  ${[...summands, ...more].join('\n  or ')}\n)`;
}

function labelled(vector, label, value) {
  return `label_replace(${vector}, "${label}", "${value}", "", "")`;
}

function record(name, expr) {
  const lines = expr.split('\n').map((line) => `          ${line}\n`);
  return `      - record: ${name}\n        expr: |-\n${lines.join('')}`;
}
