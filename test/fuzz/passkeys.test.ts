import { createPublicKey } from 'node:crypto';
import { test } from 'tap';
import type { EnrolmentAnswer, LoginAnswer, VerifyAnswers } from '../../src/domain/passkeys/ports.ts';
import type { AuthenticatorState } from '../../src/domain/tokens/ports.ts';
import { makeVerifyAnswers } from '../../src/infra/webauthn/verify-answer.ts';
import { judgeEnrolment, judgeLogin } from '../support/second-opinion.ts';
import { makeDice } from './dice.ts';
import { anAnswer, SITE, type Given } from './passkey-answers.ts';

/** FUZZ_COUNT answers, generated from FUZZ_SEED. */
const COUNT = Number(process.env.FUZZ_COUNT ?? 20_000);
/** So many answers hold each allowed difference. */
const RARE = 20_000;
const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1e6);

/** What Latchkey accepts alone, by the reason of the second opinion. None of it changes what was signed. */
const ACCEPTED_ALONE: Record<string, string> = {
  'refused: bytes after the attestation object': 'nobody has signed them, and Latchkey ignores them',
  'refused: attestation statement': 'the statement is ignored, so it may be missing',
  'refused: extension outputs': 'they are ignored, so they may be no map',
  'refused: CBOR ends early':
    'the library takes the bytes that are there, and the key must be one all the same',
  'refused: key part -2': 'a coordinate may have leading zeros, which the stored key has not',
};

/** What Latchkey refuses alone, although no rule of WebAuthn does. */
const REFUSED_ALONE: Record<string, (client: Record<string, unknown>, size: number) => boolean> = {
  'client data of more than 4,096 bytes': (_client, size) => size > 4096,
  'a token binding of another form': ({ tokenBinding }) => tokenBinding !== undefined,
};

test(`${COUNT} answers of authenticators get the verdict of a second opinion`, async (t) => {
  t.comment(`FUZZ_SEED=${SEED}`);
  const verifyAnswers = makeVerifyAnswers({ rpId: SITE.rpId, origins: [SITE.origin] });
  const dice = makeDice(SEED, { dealt: 0 });
  const seen = new Map<string, number>();
  const problems: string[] = [];
  for (let i = 0; i < COUNT && problems.length < 10; i++) {
    const given = anAnswer(dice);
    const ours = await verdictOf(verifyAnswers, given);
    const second = secondOpinion(given);
    const outcome = outcomeOf(given, ours, second);
    seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
    if (outcome === 'a difference')
      problems.push(`${given.what}: ${ours} or ${second}: ${given.kind} ${JSON.stringify(given.answer)}`);
  }
  t.strictSame(problems, []);
  for (const [outcome, times] of seen) t.comment(`${times} ${outcome}`);
  for (const outcome of ['both accept', 'both refuse'])
    t.ok((seen.get(outcome) ?? 0) > COUNT / 10, `${outcome} many`);
  // The rarest of them is one answer in about a thousand.
  if (COUNT < RARE) return;
  const allowed = [...Object.keys(ACCEPTED_ALONE), ...Object.keys(REFUSED_ALONE)];
  t.strictSame(
    allowed.filter((difference) => !seen.has(difference)),
    [],
    'each allowed difference is one',
  );
});

/** @returns what an accepted answer proves, as text; else 'refused' */
async function verdictOf(verifyAnswers: VerifyAnswers, { kind, answer, ...given }: Given): Promise<string> {
  if (kind === 'enrolment') {
    const challenge = Buffer.from(given.challenge, 'base64url');
    const made = await verifyAnswers.checkEnrolment(answer as unknown as EnrolmentAnswer, challenge);
    return made ? [textOf(made.credentialId), textOf(made.publicKey), ...stateOf(made)].join() : 'refused';
  }
  const presented = verifyAnswers.read(answer as unknown as LoginAnswer);
  if (presented?.challenge !== given.challenge || !presented.isOurs) return 'refused';
  const state = await verifyAnswers.checkLogin(presented, publicKeyOf(given.passkey));
  return state ? stateOf(state).join() : 'refused';
}

/** @returns the same; for a refusal its reason */
function secondOpinion({ kind, answer, challenge, passkey }: Given): string {
  const expected = { challenge, origins: [SITE.origin], rpId: SITE.rpId };
  try {
    if (kind === 'login') return stateOf(judgeLogin(answer, expected, publicKeyOf(passkey))).join();
    const made = judgeEnrolment(answer, expected);
    return [made.credentialId, textOf(made.publicKey), ...stateOf(made)].join();
  } catch (error) {
    return error instanceof Error && error.message.startsWith('refused: ') ? error.message : 'refused: other';
  }
}

function outcomeOf({ answer }: Given, ours: string, second: string): string {
  if (ours === second) return 'both accept';
  if (ours !== 'refused') return second in ACCEPTED_ALONE ? second : 'a difference';
  if (second.startsWith('refused: ')) return 'both refuse';
  const { clientDataJSON } = answer.response as { clientDataJSON: string };
  const bytes = Buffer.from(clientDataJSON, 'base64url');
  const client = JSON.parse(bytes.toString()) as Record<string, unknown>;
  const [allowed] = Object.entries(REFUSED_ALONE).find(([, holds]) => holds(client, bytes.length)) ?? [];
  return allowed ?? 'a difference';
}

function stateOf({ counter, backupEligible, backedUp }: AuthenticatorState): (number | boolean)[] {
  return [counter, backupEligible, backedUp];
}

function publicKeyOf({ privateKey }: Given['passkey']): Buffer {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64url');
}
