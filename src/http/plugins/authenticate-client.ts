import type { FastifyRequest, onRequestAsyncHookHandler, preValidationAsyncHookHandler } from 'fastify';
import type { ServiceClients } from '../../domain/clients/authenticate.ts';
import type { ServiceIdentity } from '../../domain/clients/service-client.ts';
import { AuthError } from '../../domain/errors.ts';
import { decodeFormText, decodeUtf8 } from '../form.ts';
import '../request.ts';

/** RFC 7617: the scheme in any case, and base64 with or without its padding. */
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** The hooks of a route for registered services, to be spread into its options. */
export interface ClientHooks {
  onRequest: onRequestAsyncHookHandler;
  preValidation: preValidationAsyncHookHandler;
}

/**
 * `app.auth.client` admits a registered service by its secret (HTTP Basic), and sets `serviceClient`. It checks the
 * secret again after the body has arrived: the service may have been deleted while it delayed the body.
 */
export function makeClientHooks(clients: Pick<ServiceClients, 'authenticate' | 'isStillGood'>): ClientHooks {
  return {
    onRequest: async (request) => {
      const credentials = readBasic(request.headers.authorization ?? '');
      if (!credentials) throw new AuthError('invalid_client');
      request.serviceClient = await clients.authenticate(credentials.id, credentials.secret);
    },
    // eslint-disable-next-line @typescript-eslint/require-await -- as a hook it is either async or takes a callback
    preValidation: async (request) => {
      if (!clients.isStillGood(serviceClientOf(request))) throw new AuthError('invalid_client');
    },
  };
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
  if (!serviceClient) throw new AuthError('invalid_client');
  return serviceClient;
}
