import { readDocument } from './documents.ts';
import type { Document } from './openapi.ts';

// Which paths a proxy opens. One list for nginx, Caddy, Traefik, Envoy and the routes of Kubernetes.

const { paths } = JSON.parse(readDocument('docs/openapi.json')) as Pick<Document, 'paths'>;

/** Every path of the API, with its operations. */
const API = Object.entries(paths).map(([path, operations]) => ({
  path: path.replaceAll(/\{\w+\}/g, '7'),
  operations: Object.values(operations),
}));

/** Paths that no proxy opens: near those that it does, and of the ops port. */
const OTHERS = [
  '/',
  '/api',
  '/api/authx',
  '/api/auth-like',
  '/api/user-like',
  '/api/usersx',
  '/docs',
  '/openapi.json',
  '/.well-known',
  '/.well-known/jwks.json/x',
  '/.well-known/openid-configuration/x',
  '/health/live',
  '/health/ready',
  '/metrics',
];

export const ALL_PATHS: readonly string[] = [...API.map(({ path }) => path), ...OTHERS];

/** Open to clients. */
export const PUBLIC_PATHS = ALL_PATHS.filter(
  (path) => !OTHERS.includes(path) && !/^\/api\/users(\/|$)/.test(path),
);

/** The endpoints of services. Some of them are public too. */
export const SERVICE_PATHS = API.filter(
  ({ path, operations }) =>
    /^\/\.well-known\/|\/verify$/.test(path) ||
    operations.some(({ security }) => security.some((scheme) => 'serviceClient' in scheme)),
).map(({ path }) => path);
