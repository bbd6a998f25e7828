import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import type { ServiceClients } from '../../domain/clients/authenticate.ts';
import type { ServiceIdentity } from '../../domain/clients/service-client.ts';
import { AuthError } from '../../domain/errors.ts';
import { decodeFormText, decodeUtf8 } from '../form.ts';
import '../request.ts';

/** RFC 7617: the scheme in any case, and base64 with or without its padding. */
const BASIC = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/** `app.auth.client`: a registered service that shows its secret (HTTP Basic). Sets `serviceClient`. */
export function makeClientHook(clients: Pick<ServiceClients, 'authenticate'>): onRequestAsyncHookHandler {
  return async (request) => {
    const credentials = readBasic(request.headers.authorization ?? '');
    if (!credentials) throw new AuthError('invalid_client');
    request.serviceClient = await clients.authenticate(credentials.id, credentials.secret);
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

/** The service that the route's hook has found; a route that forgot its hook fails here, and not open. */
export function serviceClientOf({ serviceClient }: FastifyRequest): ServiceIdentity {
  if (!serviceClient) throw new AuthError('invalid_client');
  return serviceClient;
}
