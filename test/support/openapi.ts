import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildApp } from '../../src/app.ts';
import { compose } from '../../src/composition/compose.ts';
import { loadConfig } from '../../src/config/config.ts';
import { silentLogger, silentOutput } from './silent-log.ts';

/** The parts of the document that tests read. */
export interface Document {
  openapi: string;
  info: { title: string; version: string; description: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: Record<
    'schemas' | 'responses' | 'parameters' | 'headers' | 'securitySchemes',
    Record<string, JsonSchema>
  >;
}

export interface Operation {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  security: Record<string, string[]>[];
  parameters: (Parameter | Reference)[];
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses: Record<string, Response | Reference>;
  'x-any-method'?: boolean;
  'x-head'?: boolean;
  'x-any-path-below'?: boolean;
}

export interface Parameter {
  in: 'path' | 'query' | 'header';
  name: string;
  required: boolean;
  description?: string;
  example?: unknown;
  schema: JsonSchema;
}

export interface Response {
  description: string;
  headers?: Record<string, Header | Reference>;
  content?: Record<string, Media>;
}

export interface Header {
  description: string;
  required: boolean;
  schema: JsonSchema;
}

export interface Media {
  schema: JsonSchema;
  example?: unknown;
  examples?: Record<string, { value: unknown }>;
  /** The data of each event of a stream. */
  'x-events'?: Record<string, JsonSchema>;
}

export interface Reference {
  $ref: string;
}

export type JsonSchema = Record<string, unknown>;

/** Resolves a reference. */
export function resolve<Part>(document: Document, part: Part | Reference): Part {
  if (!(typeof part === 'object' && part !== null && '$ref' in part)) return part;
  const [, , kind = '', name = ''] = part.$ref.split('/');
  const found = (document.components as Record<string, Record<string, unknown>>)[kind]?.[name];
  if (found === undefined) throw new Error(`${part.$ref} does not exist`);
  return found as Part;
}

/** The served document. It needs no store. */
export async function openApiDocument(): Promise<Document> {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-openapi-'));
  const composition = await compose(
    loadConfig({ DATA_DIR: dataDir }),
    'postgres://127.0.0.1:1/none',
    silentLogger,
    silentOutput,
  );
  const app = await buildApp({ ...composition.app, standing: { objection: () => null } });
  try {
    const response = await app.inject({ url: '/docs/json' });
    if (response.statusCode !== 200) throw new Error(`no document: ${response.body}`);
    const document: Document = response.json();
    return document;
  } finally {
    await app.close();
    await composition.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}
