import { createRequire } from 'node:module';
import { createVerifier } from 'fast-jwt';
import * as jose from 'jose';
import { passportJwtSecret } from 'jwks-rsa';
import * as oauth from 'oauth4webapi';

/** Libraries that services use to verify access tokens. Each gets the issuer, audience and JWKS, and no secret. */
export type Verifier = (token: string) => Promise<{ sub?: unknown }>;

interface Issuer {
  issuer: string;
  audience: string;
  /** Milliseconds for which they cache the JWKS. None of them fetches it earlier. */
  maxAge: number;
}

const require = createRequire(import.meta.url);

export const VERIFIERS: Record<string, (about: Issuer) => Verifier> = {
  jose: ({ issuer, audience, maxAge }) => {
    const keys = jose.createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`), {
      cacheMaxAge: maxAge,
      cooldownDuration: 3_600_000,
    });
    return async (token) =>
      (await jose.jwtVerify(token, keys, { issuer, audience, typ: 'at+jwt', algorithms: ['ES256', 'RS256'] }))
        .payload;
  },

  'get-jwks with fast-jwt': ({ issuer, audience, maxAge }) => {
    const buildGetJwks = require('get-jwks') as (options: object) => {
      getPublicKey(key: {
        kid: string | undefined;
        alg: string | undefined;
        domain: string;
      }): Promise<string>;
    };
    const getJwks = buildGetJwks({ issuersWhitelist: [issuer], ttl: maxAge });
    const verify = createVerifier({
      key: ({ header }: { header: { kid?: string; alg?: string } }) =>
        getJwks.getPublicKey({ kid: header.kid, alg: header.alg, domain: issuer }),
      allowedIss: issuer,
      allowedAud: audience,
      requiredClaims: ['exp', 'sub', 'jti'],
    });
    return (token) => verify(token) as Promise<{ sub?: unknown }>;
  },

  'passport-jwt with jwks-rsa': ({ issuer, audience, maxAge }) => {
    const { Strategy, ExtractJwt } = require('passport-jwt') as PassportJwt;
    const strategy = new Strategy(
      {
        secretOrKeyProvider: passportJwtSecret({
          jwksUri: `${issuer}/.well-known/jwks.json`,
          cache: true,
          cacheMaxAge: maxAge,
        }),
        jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(),
        issuer,
        audience,
        algorithms: ['ES256', 'RS256'],
      },
      (claims, done) => {
        done(null, claims);
      },
    );
    return (token) =>
      new Promise((resolve, reject) => {
        const asked = Object.assign(Object.create(strategy) as InstanceType<PassportJwt['Strategy']>, {
          success: resolve,
          fail: (why: unknown) => {
            reject(new Error(String(why)));
          },
          error: reject,
        });
        asked.authenticate({ headers: { authorization: `Bearer ${token}` } });
      });
  },

  // Exactly RFC 9068, with the keys that RFC 8414's metadata name.
  oauth4webapi: ({ issuer, audience }) => {
    // oxlint-disable-next-line typescript/no-deprecated -- on loopback there is no TLS
    const insecure = { [oauth.allowInsecureRequests]: true };
    return async (token) => {
      const url = new URL(issuer);
      const answer = await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...insecure });
      const server = await oauth.processDiscoveryResponse(url, answer);
      const request = new Request('http://resource.example/', {
        headers: { authorization: `Bearer ${token}` },
      });
      return oauth.validateJwtAccessToken(server, request, audience, insecure);
    };
  },
};

interface PassportJwt {
  Strategy: new (
    options: object,
    verify: (claims: object, done: (error: null, user: object) => void) => void,
  ) => { authenticate(request: { headers: object }): void };
  ExtractJwt: { fromAuthHeaderAsBearerToken(): unknown };
}
