import { test } from 'tap';
import { makeVerifyAnswers } from '../../../src/infra/webauthn/verify-answer.ts';
import { FLAGS } from '../../support/authenticator.ts';
import { judgeEnrolment, judgeLogin } from '../../support/second-opinion.ts';
import { deriveVector, type Recipe } from './spec-vectors.ts';

interface Example {
  name: string;
  recipe?: Recipe;
  /** Of what the specification prints. */
  digests: { enrolment: string; login: string };
  /** Which of both Latchkey accepts. The others lack user verification, or come from a frame. */
  accepted: ('enrolment' | 'login')[];
}

/** All but those of ES384, ES512 and Ed448, which Latchkey does not take. */
const EXAMPLES: Example[] = [
  {
    name: 'none.ES256',
    digests: {
      enrolment: 'c79eda3e2f18caab517fbd3df146dfd091a78056827a9f24dbc2e5d69439beb3',
      login: '51f88ba36a5fc7dac2c8448f78d26e018ac7bd09ee414d79572026fd014a36f4',
    },
    accepted: [],
  },
  {
    name: 'packed-self.ES256',
    digests: {
      enrolment: 'a874f4855b409e521488e7502dbee7fe3c6768e83d015fd30aaf13450e1f1611',
      login: 'f04d30c37e47d62e1a8272ea42aa62d80d32ff4fab955209a3bcb2827bb7fa42',
    },
    accepted: ['enrolment'],
  },
  {
    name: 'none.ES256.crossOrigin',
    recipe: { members: { crossOrigin: true } },
    digests: {
      enrolment: '7d55583dc4c0b69475bcaa48bec0b041159a4e23b6c445411b9defcffb2cd0ee',
      login: 'c2616949905872d0d015ca2426ea09e1bd2151f29e1f2fff09e0d8123ddaafda',
    },
    accepted: [],
  },
  {
    name: 'none.ES256.topOrigin',
    recipe: { members: { crossOrigin: true, topOrigin: 'https://example.com' } },
    digests: {
      enrolment: 'ebfd9b2c1a9f9007eaa29e6df38474f5fd05ef4813dbecc5307dea8833c597be',
      login: '03eb72cf96829fbebe01544b878143e4a52424b50c59492844f8bbd695d03a91',
    },
    accepted: [],
  },
  {
    name: 'none.ES256.long-credential-id',
    recipe: { idLength: 1023 },
    digests: {
      enrolment: 'f977ced986833ce76703d35f49759c3e01e2b3c6e893e16609274a5003c2ec18',
      login: 'b64abc4ec62f630444f7dd61d72f9fe5e0907c9bdf53d47010f6035b97f30c69',
    },
    accepted: ['login'],
  },
  {
    name: 'packed.ES256',
    recipe: { statementValues: 2 },
    digests: {
      enrolment: '66492f33e5054cd702dd0cca8a51d3159afeb475a061b37c1a6d1cd778250c30',
      login: 'bb6a9fc3c6c91e151d58e7d4eb7c66adb2969ca751624128c4b250ab81d00cc9',
    },
    accepted: ['enrolment', 'login'],
  },
  {
    name: 'packed.RS256',
    recipe: { algorithm: 'RS256', statementValues: 2 },
    digests: {
      enrolment: 'a28e994e6635a00acc7ed2a8242e31d9fe85586dc5e2148523b14573c2c6eb0a',
      login: '1c07a27751cbd730daf24a542b9bd6b9be3152f4361666b99945f007fac3dab6',
    },
    accepted: ['enrolment'],
  },
  {
    name: 'packed.EdDSA',
    recipe: { algorithm: 'Ed25519', statementValues: 2 },
    digests: {
      enrolment: '463ec8fbd23fe4431581583387352be9d8e880765d460bce57bb06a3adbb4962',
      login: '045bb6ab03480f53d54fcdd9acf0ee7833647e72fcfb4bcb70fdfead58ebd8c0',
    },
    accepted: [],
  },
  {
    name: 'tpm.ES256',
    recipe: { statementValues: 2 },
    digests: {
      enrolment: '299edb5fe4a2a76a98f02670d290224f6c9e294e9ca1a582b99894d88660b99a',
      login: 'cfabb9ddc42230b56fdaeedfc46b0912c2a735603055d7258c10399f85997e59',
    },
    accepted: ['enrolment', 'login'],
  },
  {
    name: 'android-key.ES256',
    recipe: { statementValues: 1 },
    digests: {
      enrolment: 'f09fb2c72ae6eccede539bdd63aa17a4f1172c8418ddff1546e69b13e25dcf86',
      login: '046d5d284a8ebc6100975bf018b247e6e122e039844831b640ebc05f2191116b',
    },
    accepted: ['enrolment'],
  },
  {
    name: 'apple.ES256',
    recipe: { statementValues: 1 },
    digests: {
      enrolment: 'be7bb05c94f64267c4bcbdb934e8ebbd9360467f9f60d46a0f9ba89fc8f81e7f',
      login: 'ce00e186354261e7c4a0f0ff5abcd5877a4775524f11463240fb5420d33fdddf',
    },
    accepted: [],
  },
  {
    name: 'fido-u2f.ES256',
    recipe: { statementValues: 2 },
    digests: {
      enrolment: 'd81ce24fd89fd08f2d32cd539b9cce1a17216d1d563c40f2df9efc374e9eb94f',
      login: '03a8b0381fff9b7b700849078429048f8639dccf61e43ed391fa5ad1bb8896d0',
    },
    accepted: [],
  },
];

const SITE = { origins: ['https://example.org'], rpId: 'example.org' };

for (const { name, recipe, digests, accepted } of EXAMPLES)
  test(`the example ${name} of WebAuthn Level 3`, async (t) => {
    const vector = deriveVector(name, recipe);
    t.strictSame(vector.digests, digests, 'is what the specification prints');
    const { creation, request, enrolment, login, publicKey } = vector;
    const verifyAnswers = makeVerifyAnswers(SITE);
    const made = await verifyAnswers.checkEnrolment(enrolment, Buffer.from(creation.challenge, 'base64url'));
    t.equal(made !== null, accepted.includes('enrolment'));
    if (made) t.strictSame(made.publicKey, publicKey);
    const presented = verifyAnswers.read(login);
    const state = presented?.isOurs === true ? await verifyAnswers.checkLogin(presented, publicKey) : null;
    t.equal(state !== null, accepted.includes('login'));
    t.equal(presented?.challenge, request.challenge);

    // The second opinion also takes them without user verification, so that every signature is verified.
    const isFramed = recipe?.members !== undefined;
    for (const demanded of [FLAGS.up, FLAGS.up | FLAGS.uv]) {
      const isRight = (part: 'enrolment' | 'login') =>
        demanded === FLAGS.up ? !isFramed : accepted.includes(part);
      const expected = (challenge: string) => ({ ...SITE, demanded, challenge });
      const judged = [
        passes(() => judgeEnrolment(enrolment, expected(creation.challenge))),
        passes(() => judgeLogin(login, expected(request.challenge), publicKey)),
      ];
      t.strictSame(judged, [isRight('enrolment'), isRight('login')]);
    }
  });

function passes(judge: () => unknown): boolean {
  try {
    judge();
    return true;
  } catch {
    return false;
  }
}
