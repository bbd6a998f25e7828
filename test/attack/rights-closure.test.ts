import { test, type Test } from 'tap';
import { MAIL_KINDS } from '../../src/domain/mail-kinds.ts';
import { callRight, COVERS, kindOf, RIGHTS, type Right } from '../../src/domain/rights.ts';
import { aManager, type Manager } from '../support/accounts.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { bearer, logIn } from '../support/client.ts';
import { aMailer, lookUp } from '../support/mails.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { written } from '../support/written.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, inParallel, type Attacked } from './operations.ts';
import { theVictims, type Victims } from './victims.ts';

/** At most. In the first two, the attacker asks for a mail and redeems its token; in the third, it logs in. */
const ROUNDS = 4;

/** Fewer than may wait for one account. */
const AT_ONCE = 20;

const PASSWORD = 'the attacker chose this';
const USES = '/api/auth/uses';
const READERS = '/api/auth/revocations/';
const AT_HOME = '@attacker.example';

const PUBLIC = attackedOperations().filter(({ isPublic }) => isPublic);
const OF_SERVICES = attackedOperations().filter(({ schemes }) => schemes.includes('serviceClient'));
const OF_USERS = attackedOperations().filter(
  ({ schemes, isPublic }) => schemes.includes('bearerAuth') && !isPublic,
);

/** What operations for everyone and for users take, by the names of their properties. */
const TAKEN = [
  ...new Set([...PUBLIC, ...OF_USERS].flatMap(({ choices }) => Object.keys(choices).map(kindOfName))),
];

interface World {
  target: TestApp;
  url: string;
  operator: Manager;
  /** Hands each mail to the owner of its address. */
  mailer: Awaited<ReturnType<typeof aMailer>>;
}

/** What the attacker knows, by the names of the properties that showed it. */
type Known = Map<string, Set<unknown>>;

let names = 0;

test('a right reaches what COVERS says, also by the operations that anyone may call', async (t) => {
  // What anyone may do by a signup is no effect of a right.
  const world = await aWorld(t);
  for (const right of [null, ...RIGHTS, callRight('orders')]) {
    const covered = right === null ? [] : COVERS[kindOf(right)];
    const effects = await effectsOf(world, right, covered);
    t.strictSame(effects.sort(), [...covered].sort(), right ?? 'no right');
  }
});

async function aWorld(t: Test): Promise<World> {
  // What anyone may do by a signup is no effect of a right.
  const env = {
    SIGNUP_ENABLED: 'false',
    EMAIL_VERIFICATION: 'true',
    NOTICES: 'true',
    FACTOR_KEYS: Buffer.alloc(32, 1).toString('base64url'),
    DATABASE_TIMEOUT: '30000',
  };
  const target = await buildTestApp(t, { env });
  target.composition.start();
  const url = await target.app.listen({ port: 0 });
  await aRegisteredService(target.databaseUrl, 'orders', [], 'orders');
  const operator = await aManager(target.databaseUrl, target, RIGHTS, 'operator');
  return { target, url, operator, mailer: await aMailer(target) };
}

/** All that a service reaches whose only right this is, or what it reaches until one effect is not covered. */
async function effectsOf(world: World, right: Right | null, covered: readonly string[]): Promise<string[]> {
  const { target, operator } = world;
  const rights = right === null ? [] : [right];
  const service = await aRegisteredService(target.databaseUrl, `has ${right ?? 'nothing'}`, rights);
  const credentials = basic(service);
  const effects = new Set<string>();
  // What is done to any account is done to the holder's too.
  const reached = () => [...effects].filter((each) => each === ofAny(each) || !effects.has(ofAny(each)));
  const admitted = await admittedOf(world, await theVictims(target, operator), credentials);
  let victims = await theVictims(target, operator);
  for (const [operation, i] of [...admitted, [null, 0] as const]) {
    const known = aKnowledge(victims);
    const request = operation && requestsOf(operation, known, credentials)[i];
    if (!(await attack(world, victims, known, request ?? null))) continue;
    for (const effect of victims.effects) effects.add(effect);
    if (reached().some((effect) => ofAny(effect) === effect && !covered.includes(effect))) break;
    victims = await theVictims(target, operator);
  }
  victims = await theVictims(target, operator);
  await attackAsUser(
    world,
    victims,
    aKnowledge(victims),
    new Set(admitted.map(([each]) => each)),
    credentials,
  );
  for (const effect of victims.effects) effects.add(effect);
  return reached();
}

function ofAny(effect: string): string {
  return effect.replace('holder.', 'account.');
}

/**
 * Which requests the service may send at all, by their operation and number. All are tried at once, because each refusal
 * waits for a load of the rights, at most one a second.
 */
async function admittedOf({ url }: World, victims: Victims, credentials: Record<string, string>) {
  const tried = OF_SERVICES.flatMap((operation) =>
    requestsOf(operation, aKnowledge(victims), credentials).map((request, i) => ({ operation, request, i })),
  );
  const admitted: [Attacked, number][] = [];
  const ask = async ({ operation, request: { path, ...options }, i }: (typeof tried)[number]) => {
    const { status, body } = await fetch(url + path, options);
    await body?.cancel();
    if (status !== 401 && status !== 403) admitted.push([operation, i]);
  };
  await inParallel(tried, ask, 200);
  return admitted;
}

interface Request {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

/**
 * Sends the request, and all that anyone may send with what the answers show, until a round brings nothing new.
 * @param request null for nothing but the latter. @returns false if it was refused: then only the latter is left.
 */
async function attack(
  world: World,
  victims: Victims,
  known: Known,
  request: Request | null,
): Promise<boolean> {
  learnNames(victims, known);
  if (request && (await send(world, victims, known, request)) >= 400) return false;
  await inRounds(victims, known, async () => {
    for (const operation of PUBLIC)
      for (const each of requestsOf(operation, known)) await send(world, victims, known, each);
    await lookUp(world.target);
    if (request) await send(world, victims, known, request);
    await readMails(world, known);
  });
  return true;
}

/**
 * The same by somebody who is a user too: a worklist of all that anyone, this user and the service may send, with all
 * values that the answers and mails have shown. Deletions and disabling would hide the rest, so they are left out.
 */
async function attackAsUser(
  world: World,
  victims: Victims,
  known: Known,
  admitted: Set<Attacked>,
  credentials: Record<string, string>,
): Promise<void> {
  learnNames(victims, known);
  for (const email of victims.addresses) learn(known, { email });
  const ofService = [...admitted].filter(({ method }) => method !== 'DELETE');
  const token = await ownSession(world, victims, known);
  const [sent, refused] = [new Set<string>(), new Set<string>()];
  /** Each request once: nothing but the values changes what they do to this user's account. */
  const sendAsUser = async (operations: Attacked[]) => {
    for (const operation of operations)
      for (const each of requestsOf(operation, known, bearer(token), { isThorough: true })) {
        const request = JSON.stringify(each);
        if (!sent.has(request)) await send(world, victims, known, each);
        sent.add(request);
      }
  };
  await inRounds(victims, known, async () => {
    const asService = ofService
      .flatMap((operation) => requestsOf(operation, known, credentials, { isThorough: true }))
      .filter(({ body }) => !body?.includes('"disabled":true'));
    // At once, and not again: a field that takes another right is refused after a load of the rights.
    const ask = async (each: Request) => {
      const request = JSON.stringify(each);
      if (!refused.has(request) && (await send(world, victims, known, each)) === 403) refused.add(request);
    };
    await inParallel(asService, ask, AT_ONCE);
    for (const operation of PUBLIC)
      for (const each of requestsOf(operation, known)) await send(world, victims, known, each);
    await sendAsUser(OF_USERS.filter(({ method }) => method !== 'DELETE'));
    await lookUp(world.target);
    await readMails(world, known);
  });
  // They end the session.
  await sendAsUser(OF_USERS.filter(({ method }) => method === 'DELETE'));
  await victims.compare();
}

/** An account of the attacker's own, with a proved address. @returns an access token */
async function ownSession({ target, operator }: World, victims: Victims, known: Known): Promise<string> {
  const username = `attacker-${++names}`;
  const account = { username, name: 'Eve', email: `${username}${AT_HOME}`, password: PASSWORD };
  const created = await operator('POST /api/users', { ...account, email_verified: true });
  if (created.statusCode !== 200) throw new Error(`no account: ${created.body}`);
  const pair = await logIn(target, username, PASSWORD);
  victims.spare(pair.user.id);
  // Where it would like its mails to go.
  learn(known, { email: `more.${username}${AT_HOME}` });
  return pair.access_token;
}

/** Repeats a round until it brings nothing new. */
async function inRounds(victims: Victims, known: Known, round: () => Promise<void>): Promise<void> {
  const progress = () =>
    TAKEN.reduce((sum, name) => sum + (known.get(name)?.size ?? 0), victims.effects.size);
  for (let i = 0, before = -1; i < ROUNDS && before < progress() && !victims.areTaken(); i++) {
    before = progress();
    await round();
    await victims.compare();
  }
}

function learnNames({ usernames }: Victims, known: Known): void {
  for (const username of [...usernames, ...(known.get('email') ?? [])]) learn(known, { username });
}

/** Hands each mail to the owner of its address, one of whom is the attacker. */
async function readMails({ mailer }: World, known: Known): Promise<void> {
  for (const { email, token } of await mailer.take(100, MAIL_KINDS))
    if (email.endsWith(AT_HOME)) learn(known, { token });
}

/** @returns the status. */
async function send(
  { target, url }: World,
  victims: Victims,
  known: Known,
  { path, ...options }: Request,
): Promise<number> {
  const response = await fetch(url + path, options);
  if (response.headers.get('content-type') === 'text/event-stream') {
    victims.effects.add('feed.read');
    await response.body?.cancel();
    return response.status;
  }
  const text = await response.text();
  if (response.ok && path.startsWith(READERS) && options.method === 'GET')
    victims.effects.add('readers.read');
  if (path === USES && response.ok) await written(target);
  victims.readIn(text);
  const told = text.startsWith('{') ? Object.entries(JSON.parse(text) as object) : [];
  // A refusal holds nothing else that is of use; its `code` is none of a second factor.
  learn(known, Object.fromEntries(told.filter(([name]) => response.ok || name.endsWith('token'))));
  for (const token of known.get('jwt') ?? []) await victims.tryToken(String(token));
  return response.status;
}

function aKnowledge({ access, ids, tokens }: Victims): Known {
  const own = `attacker-${++names}`;
  return new Map<string, Set<unknown>>([
    ['token', new Set([access])],
    ['jwt', new Set()],
    ['id', new Set(ids)],
    ['tokens', new Set([tokens])],
    ['username', new Set([own])],
    ['email', new Set([`${own}${AT_HOME}`])],
    ['password', new Set([PASSWORD])],
    ['current_password', new Set([PASSWORD])],
    ['external_id', new Set([own, null])],
  ]);
}

/** Keeps what an operation for everyone takes, under its name. An address is also a login's name. */
function learn(known: Known, value: unknown, name = ''): void {
  if (Array.isArray(value)) for (const each of value) learn(known, each, name.replace(/s$/, ''));
  else if (typeof value === 'object' && value !== null)
    for (const [property, each] of Object.entries(value)) learn(known, each, property);
  else if (typeof value === 'string' && isJwt(value)) known.get('jwt')?.add(value);
  else if (typeof value === 'string')
    for (const as of name === 'email' ? ['email', 'username'] : [kindOfName(name)])
      if (TAKEN.includes(as)) known.set(as, (known.get(as) ?? new Set()).add(value));
}

/** Nothing but a header takes one, where it is tried. All other tokens are tried wherever one is taken. */
function isJwt(text: string): boolean {
  return text.split('.').length === 3 && text.startsWith('ey');
}

function kindOfName(property: string): string {
  return property.endsWith('token') ? 'token' : property;
}

/**
 * The operation's requests with each path, query and set of properties that the reference allows. Each property takes all
 * values that are known, or that the reference names, while the others keep one, so that requests add up and do not
 * multiply.
 * @param isThorough also with all properties but one, for a request that is not followed by a whole attack.
 */
function requestsOf(
  operation: Attacked,
  known: Known,
  credentials: Record<string, string> = {},
  { isThorough = false } = {},
): Request[] {
  const { method, template, body, choices, required, query } = operation;
  const valuesOf = (name: string) => [...(known.get(kindOfName(name)) ?? choices[name] ?? query[name] ?? [])];
  const paths = template.includes('{id}')
    ? valuesOf('id').map((id) => template.replace('{id}', String(id)))
    : [
        template,
        ...Object.keys(query).flatMap((name) =>
          valuesOf(name).map((value) => `${template}?${name}=${encodeURIComponent(String(value))}`),
        ),
      ];
  const headers = { ...headersOf(operation), ...credentials };
  if (body === null) return paths.map((path) => ({ method, path, headers }));

  const others = Object.keys(choices).filter((name) => !required.includes(name));
  const allButOne = others.map((name) => others.filter((each) => each !== name));
  const sets = [[], ...others.map((name) => [name]), ...(isThorough ? allButOne : []), others];
  const bodies = new Set<string>();
  for (const names of sets.map((set) => [...required, ...set]))
    // With all switches on, and with all off.
    for (const end of [0, -1]) {
      const common = Object.fromEntries(names.map((name) => [name, valuesOf(name).at(end)]));
      for (const name of names)
        for (const value of valuesOf(name)) bodies.add(bodyOf(operation, { ...common, [name]: value }) ?? '');
      bodies.add(bodyOf(operation, common) ?? '');
    }
  return paths.flatMap((path) => [...bodies].map((each) => ({ method, path, headers, body: each })));
}
