import { isIPv4 } from 'node:net';
import { LoadError } from './load-error.ts';

/**
 * The service's origin. Only loopback is allowed unless the caller says that the target is theirs: this kit is good at
 * taking services down.
 * @throws LoadError
 */
export function readTarget(url: string, isOwned: boolean): string {
  const target = parse(url);
  // The text may hold a password.
  if (!target || !/^https?:$/.test(target.protocol))
    throw new LoadError('--url: give a URL that begins with http:// or https://');
  const { pathname, search, hash, username, password } = target;
  if (pathname !== '/' || search !== '' || hash !== '' || username !== '' || password !== '')
    throw new LoadError('--url: give the origin only, such as https://auth.example.com');
  if (!isLoopback(target.hostname) && !isOwned)
    throw new LoadError(
      `${target.hostname} is not this machine. If the service is yours, add --yes-i-own-this; else stop here`,
    );
  return target.origin;
}

/** Whether others on the way can read what is sent there. */
export function isReadable(origin: string): boolean {
  const { protocol, hostname } = new URL(origin);
  return protocol === 'http:' && !isLoopback(hostname);
}

/** @param hostname as in a URL; empty for a socket in the file system. */
export function isLoopback(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  return name === 'localhost' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'));
}

function parse(url: string): URL | null {
  return URL.canParse(url) ? new URL(url) : null;
}
