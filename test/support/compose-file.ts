import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const ROOT = new URL('../../../', import.meta.url).pathname;

export interface ComposeService {
  image: string;
  build?: string;
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string>;
  volumes?: (string | { type: 'bind'; source: string; target: string; read_only: boolean })[];
  ports?: string[];
  networks: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test: string[] };
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  mem_limit?: string;
  stop_grace_period?: string;
}

export interface ComposeFile {
  services: Record<string, ComposeService>;
  networks: Record<string, { internal?: boolean }>;
  volumes: Record<string, object>;
}

export const COMPOSE_TEXT = readFileSync(join(ROOT, 'compose.yaml'), 'utf8');

/** @param env the variables of whoever calls Compose. */
export function readCompose(env: Readonly<Record<string, string>> = {}): ComposeFile {
  // Of the forms that Compose knows, those that the file uses.
  const text = COMPOSE_TEXT.replace(/\$\{(\w+):([-+])([^}]*)\}/g, (_, name: string, sign, other: string) => {
    const value = env[name] ?? '';
    return sign === '+' ? value && other : value || other;
  });
  return parse(text, { merge: true }) as ComposeFile;
}

/** @throws Error if there is no such service. */
export function composeService(name: string, { services } = readCompose()): ComposeService {
  const service = services[name];
  if (!service) throw new Error(`compose.yaml has no ${name}`);
  return service;
}
