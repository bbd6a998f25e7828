import type { FastifyRequest, onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import type { RegisteredServices } from '../../domain/services/authenticate.ts';
import type { Right } from '../../domain/rights.ts';
import type { ServiceIdentity } from '../../domain/services/registered-service.ts';
import { AuthError } from '../../domain/errors.ts';
import { bearerTokenOf } from '../bearer.ts';
import { decodeFormText, decodeUtf8 } from './bodies.ts';
import { authenticates } from './budgets.ts';
import '../request.ts';
import type { TokenCodec } from '../token-codec.ts';
import { makeVerifiedCredentials, type Packing } from '../verified-credentials.ts';

/** RFC 7617: the scheme in any case, and base64 with or without its padding. */
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** Services are few. */
const MAX_HEADERS = 128;

/** So few may be objects. */
const UNPACKED: Packing<ServiceIdentity> = {
  pack: () => false,
  unpack: () => {
    throw new Error('a service is not kept as numbers');
  },
  sizeOf: () => 0,
};

/** The hooks of a route for registered services, to be spread into its options. */
export interface ServiceHooks {
  onRequest: onRequestAsyncHookHandler;
  preValidation: preValidationAsyncHookHandler;
}

/** Makes the hooks of a route that needs this right. */
export type ServiceHooksFor = (right: Right) => ServiceHooks;

/** Authenticates a service by its `Authorization` header. A right that is null is not asked for. */
export interface ServiceCredentials {
  /** Its secret, by HTTP Basic. @throws AuthError `invalid_client`, `right_missing`, `unavailable` */
  bySecret(header: string, right: Right | null): Promise<ServiceIdentity>;
  /** A service token for ISSUER. @throws AuthError `invalid_token`, `right_missing`, `unavailable` */
  byToken(token: string, right: Right | null): Promise<ServiceIdentity>;
}

interface CredentialPorts {
  services: Pick<RegisteredServices, 'authenticate' | 'authenticateToken' | 'refusalOf'>;
  codec: Pick<TokenCodec, 'verifyFor'>;
  /** ISSUER. */
  issuer: string;
}

export function makeServiceCredentials({ services, codec, issuer }: CredentialPorts): ServiceCredentials {
  // A service sends the same header with every request.
  const verified = makeVerifiedCredentials(MAX_HEADERS, UNPACKED);

  return {
    async bySecret(header, right) {
      const known = verified.get(header);
      if (known && services.refusalOf(known, right) === null) return known;
      const credentials = readBasic(header);
      if (!credentials)
        throw new AuthError('invalid_client', { reason: header === '' ? 'missing' : 'malformed' });
      const identity = await services.authenticate(credentials.id, credentials.secret, right);
      verified.add(header, identity);
      return identity;
    },
    async byToken(token, right) {
      const bearer = await codec.verifyFor(token, issuer);
      if (typeof bearer === 'string') throw new AuthError('invalid_token', { reason: bearer });
      if (bearer.type !== 'service') throw new AuthError('invalid_token', { reason: 'type' });
      return services.authenticateToken(bearer, right);
    },
  };
}

/**
 * `app.auth.service(right)` admits a registered service by its secret or its own token if it has the right, and sets
 * `service`. It checks both again after the body has arrived: the service may have been deleted, or have lost the
 * right, while it delayed the body.
 */
export function makeServiceHooks(
  credentials: ServiceCredentials,
  services: Pick<RegisteredServices, 'refusalOf'>,
): ServiceHooksFor {
  return (right) => ({
    onRequest: authenticates(async (request) => {
      const token = bearerTokenOf(request);
      const { authorization = '' } = request.headers;
      request.service = await (token === undefined
        ? credentials.bySecret(authorization, right)
        : credentials.byToken(token, right));
    }),
    // oxlint-disable-next-line typescript/require-await -- as a hook it is either async or takes a callback
    preValidation: async (request) => {
      const refusal = services.refusalOf(serviceOf(request), right);
      if (refusal) throw refusal;
    },
  });
}

/** RFC 6749, section 2.3.1: id and secret are each form-encoded before they are joined. */
function readBasic(header: string): { id: string; secret: string } | null {
  const encoded = BASIC.exec(header)?.[1];
  const text = encoded === undefined ? null : decodeUtf8(Buffer.from(encoded, 'base64'));
  const colon = text?.indexOf(':') ?? -1;
  if (text === null || colon === -1) return null;
  const [id, secret] = [decodeFormText(text.slice(0, colon)), decodeFormText(text.slice(colon + 1))];
  return id === null || id === '' || secret === null ? null : { id, secret };
}

/** The service that the route's hook has set. A route without the hook fails here instead of running open. */
export function serviceOf({ service }: FastifyRequest): ServiceIdentity {
  if (!service) throw new AuthError('invalid_client', { reason: 'missing' });
  return service;
}
