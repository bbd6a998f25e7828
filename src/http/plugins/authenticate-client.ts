import type { FastifyRequest, onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import { refusalError, type ServiceClients } from '../../domain/clients/authenticate.ts';
import type { Right } from '../../domain/rights.ts';
import type { ServiceIdentity } from '../../domain/clients/service-client.ts';
import { AuthError } from '../../domain/errors.ts';
import { decodeFormText, decodeUtf8 } from '../form.ts';
import '../request.ts';
import { makeVerifiedCredentials } from '../verified-credentials.ts';

/** RFC 7617: the scheme in any case, and base64 with or without its padding. */
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** Services are few. A header may take 16 KiB, so two maps take 4 MiB at most. */
const MAX_HEADERS = 128;

/** The hooks of a route for registered services, to be spread into its options. */
export interface ClientHooks {
  onRequest: onRequestAsyncHookHandler;
  preValidation: preValidationAsyncHookHandler;
}

/** Makes the hooks of a route that needs this right. */
export type ClientHooksFor = (right: Right) => ClientHooks;

/**
 * `app.auth.client(right)` admits a registered service by its secret (HTTP Basic) if it has the right, and sets
 * `serviceClient`. It checks both again after the body has arrived: the service may have been deleted, or have lost the
 * right, while it delayed the body.
 */
export function makeClientHooks(clients: ServiceClients): ClientHooksFor {
  // A service sends the same header with every request.
  const verified = makeVerifiedCredentials<ServiceIdentity>(MAX_HEADERS);

  async function authenticate(header: string, right: Right): Promise<ServiceIdentity> {
    const credentials = readBasic(header);
    if (!credentials)
      throw new AuthError('invalid_client', { reason: header === '' ? 'missing' : 'malformed' });
    const identity = await clients.authenticate(credentials.id, credentials.secret, right);
    verified.add(header, identity);
    return identity;
  }

  return (right) => ({
    onRequest: async (request) => {
      const { authorization = '' } = request.headers;
      const known = verified.get(authorization);
      const isGood = known !== undefined && clients.refusalOf(known, right) === null;
      request.serviceClient = isGood ? known : await authenticate(authorization, right);
    },
    // eslint-disable-next-line @typescript-eslint/require-await -- as a hook it is either async or takes a callback
    preValidation: async (request) => {
      const refusal = clients.refusalOf(serviceClientOf(request), right);
      if (refusal) throw refusalError(refusal, right);
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
export function serviceClientOf({ serviceClient }: FastifyRequest): ServiceIdentity {
  if (!serviceClient) throw new AuthError('invalid_client', { reason: 'missing' });
  return serviceClient;
}
