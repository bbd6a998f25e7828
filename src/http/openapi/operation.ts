import type { FastifySchema } from 'fastify';
import type { ErrorCode } from '../../domain/errors.ts';
import type { JsonObject } from './json.ts';
import type { SecurityScheme, Tag } from './description.ts';
import type { OperationId } from './operation-classes.ts';

/** What the reference tells about a route, besides the schemas that Fastify uses. */
export interface Described {
  operationId: OperationId;
  summary: string;
  /** CommonMark. */
  description: string;
  tags: readonly Tag[];
  /** Who may call it; an empty list means all callers. This only documents: the route's hooks authenticate. */
  security: readonly Partial<Record<SecurityScheme, readonly string[]>>[];
  /** The route's own error codes; common ones are added (see refusals.ts). */
  refuses: readonly ErrorCode[];
  /** It takes limited tokens too; others with users' tokens refuse them with `insufficient_scope`. */
  takesLimited?: true | undefined;
  /** OpenAPI response objects by status, for answers that a Fastify schema cannot describe. */
  answers?: Readonly<Record<number, JsonObject>>;
  /** The route answers before Fastify validates: its parameters are only described. */
  isValidated?: false;
  /** All longer paths are the same operation; OpenAPI cannot express that. */
  'x-any-path-below'?: true;
}

declare module 'fastify' {
  interface FastifySchema {
    operationId?: string;
    summary?: string;
    description?: string;
    tags?: readonly string[];
    security?: readonly Readonly<Record<string, readonly string[]>>[];
    refuses?: readonly ErrorCode[];
    takesLimited?: true | undefined;
    consumes?: readonly string[];
    answers?: Readonly<Record<number, JsonObject>>;
    isValidated?: false;
    /** Left out of the reference. */
    hide?: boolean;
  }
}

/**
 * The schema of a route in the reference; its type demands a complete description. Each property of a body and each
 * parameter needs `examples`, from which the examples of whole bodies are built.
 */
export function operation<const Schema extends Described & FastifySchema>(schema: Schema): Schema {
  return schema;
}
