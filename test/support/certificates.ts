import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The files of a server with a certificate of a CA of its own. */
export interface Certificates {
  certFile: string;
  keyFile: string;
  caFile: string;
  /** The CA's certificate, PEM. */
  ca: string;
}

/**
 * @param name of the server, and the beginning of the files' names.
 * @param holds what the certificate names.
 */
export function makeCertificates(folder: string, name: string, holds = 'IP:127.0.0.1'): Certificates {
  const file = (ending: string) => join(folder, `${name}${ending}`);
  const openssl = (...rest: string[]) => execFileSync('openssl', rest, { stdio: 'pipe' });
  const key = (path: string) => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    path,
  ];
  const [caKey, caFile, keyFile, certFile] = ['-ca.key', '-ca.pem', '.key', '.pem'].map(file) as [
    ...[string, string, string, string],
  ];
  openssl('req', '-x509', ...key(caKey), '-out', caFile, '-subj', '/CN=test CA', '-days', '2');
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${holds}`, '-days', '2'];
  openssl('req', '-x509', ...key(keyFile), '-out', certFile, '-CA', caFile, '-CAkey', caKey, ...subject);
  return { certFile, keyFile, caFile, ca: readFileSync(caFile, 'utf8') };
}
