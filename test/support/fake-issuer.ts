import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from 'jose';
import type { Test } from 'tap';
import type { Certificates } from './certificates.ts';
import { freePort } from './free-port.ts';

/** What an issuer may answer instead of what it should. */
export type Ill = 'silence' | 'redirect' | '1 MB' | 'no JSON' | 'another document' | '500';

/** An OpenID Connect issuer on loopback, such as a Kubernetes API server. The test controls every part. */
export interface FakeIssuer {
  url: string;
  /** Every request, as `GET /path`. */
  requests: string[];
  /** Answers to these paths. */
  ill: Map<string, Ill>;
  /** The keys in the JWKS. */
  published: JWK[];
  /** Publishes another key, which signs from then on. */
  addKey(algorithm?: string): Promise<IssuerSigner>;
  /** Replaces all published keys by a new one. */
  rotate(): Promise<void>;
  /** A token as Kubernetes makes it. A claim or member that is undefined is left out. */
  sign(claims?: object, header?: object, key?: CryptoKey | Uint8Array): Promise<string>;
  stop(): Promise<void>;
  start(): Promise<void>;
}

interface IssuerSigner {
  privateKey: CryptoKey;
  jwk: JWK & { kid: string; alg: string };
}

interface FakeIssuerOptions {
  /** `aud` of its tokens. */
  audience: string;
  /** Milliseconds since 1970, for `iat` and `exp`. */
  now?: () => number;
  /** Makes it an https issuer. */
  tls?: Certificates;
}

export const DISCOVERY = '/.well-known/openid-configuration';
export const JWKS = '/openid/v1/jwks';
/** Of a service account. */
export const SUBJECT = 'system:serviceaccount:shop:orders';

export async function fakeIssuer(
  t: Pick<Test, 'teardown'>,
  { audience, now = Date.now, tls }: FakeIssuerOptions,
): Promise<FakeIssuer> {
  const port = await freePort();
  const url = `http${tls ? 's' : ''}://127.0.0.1:${port}`;
  let signer: IssuerSigner | undefined;
  let server: Server | undefined;

  const documents = (): Record<string, object> => ({
    [DISCOVERY]: { issuer: url, jwks_uri: url + JWKS, response_types_supported: ['id_token'] },
    [JWKS]: { keys: issuer.published },
  });

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { url: path = '', method = '', headers } = request;
    issuer.requests.push(`${method} ${path}`);
    const moved = path.replace(/^\/moved/, '');
    const document = documents()[moved];
    const ill = issuer.ill.get(path);
    // Without keep-alive, whoever asks after `stop` is refused, and never meets a socket that is just closing.
    response.shouldKeepAlive = false;
    const send = (status: number, body = '', more = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...more }).end(body);
    const isPlain = headers.authorization === undefined && headers.cookie === undefined;
    if (!document) send(404);
    else if (!isPlain || headers.accept !== 'application/json') send(406);
    else if (ill === 'redirect') send(302, '', { location: `/moved${path}` });
    else if (ill === '500') send(500, JSON.stringify(document));
    else if (ill === 'no JSON') send(200, '<html>');
    else if (ill === 'another document')
      send(200, JSON.stringify({ issuer: `${url}/`, jwks_uri: url + JWKS }));
    else if (ill === '1 MB') {
      // Good but for its size, which no header tells.
      response.write(JSON.stringify(document));
      response.end(' '.repeat(1e6));
    } else if (ill !== 'silence') send(200, JSON.stringify(document));
  }

  const issuer: FakeIssuer = {
    url,
    requests: [],
    ill: new Map(),
    published: [],
    async addKey(algorithm = 'ES256') {
      const { publicKey, privateKey } = await generateKeyPair(algorithm, { extractable: true });
      const kid = randomBytes(8).toString('hex');
      signer = { privateKey, jwk: { ...(await exportJWK(publicKey)), use: 'sig', alg: algorithm, kid } };
      issuer.published.push(signer.jwk);
      return signer;
    },
    async rotate() {
      issuer.published = [];
      await issuer.addKey();
    },
    sign(claims = {}, header = {}, key) {
      if (!signer) throw new Error('no key');
      const { alg, kid } = signer.jwk;
      const iat = Math.floor(now() / 1000);
      const times = { exp: iat + 3600, iat, nbf: iat };
      const own = {
        iss: url,
        sub: SUBJECT,
        aud: [audience],
        ...times,
        'kubernetes.io': { namespace: 'shop' },
      };
      const [payload, members] = [
        { ...own, ...claims },
        { alg, kid, ...header },
      ].map((part) => JSON.parse(JSON.stringify(part)) as Record<string, unknown>);
      return new SignJWT(payload)
        .setProtectedHeader(members as { alg: string })
        .sign(key ?? signer.privateKey, { crit: { exp: true } });
    },
    async stop() {
      const stopping = server;
      server = undefined;
      if (!stopping) return;
      stopping.closeAllConnections();
      await new Promise((resolve) => stopping.close(resolve));
    },
    async start() {
      const files = tls && { cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) };
      const starting = files ? createTlsServer(files, answer) : createServer(answer);
      server = starting;
      await new Promise<void>((resolve) => starting.listen(port, '127.0.0.1', resolve));
    },
  };

  await issuer.addKey();
  await issuer.start();
  t.teardown(() => issuer.stop());
  return issuer;
}
