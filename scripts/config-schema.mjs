// The part `config` of charts/latchkey/values.schema.json, and the bounds of numbers, from the fields of the configuration, as
// a part of `npm run k8s`.
import { z } from 'zod';

/** What the chart or the image sets, and headers, which hold a secret and belong into `extraEnv`. */
const NOT_OF_CONFIG =
  /^(NODE_ENV|PORT|OPS_PORT|DATA_DIR|DATABASE_(URL|CA)|REDIS_(URL|CA|MODE|NODES|SENTINEL_\w+)|SIGNING_KEYS_DIR|REFRESH_TOKEN_SECRET|FACTOR_KEYS)$|_HEADERS$/;

/** Its own message asks for it (templates/_helpers.tpl), so it may be missing here. */
const ISSUER = { type: 'string', pattern: '^(https?://[^/?#\\s][^?#\\s]*)?$' };

const SCALAR = { $ref: '#/definitions/scalar' };

/** Without those that production refuses, which the chart sets. @param fields of src/config/fields.ts */
function ownFields(fields) {
  return Object.entries(fields).filter(
    ([name, { refusedInProduction }]) => !NOT_OF_CONFIG.test(name) && !refusedInProduction,
  );
}

/** JSON Schema compares numbers only, so a template compares those that are written as texts. */
export function configBounds(fields) {
  const numbers = ownFields(fields).filter(([, { bounds }]) => bounds !== undefined);
  return Object.fromEntries(numbers.map(([name, { bounds }]) => [name, bounds]));
}

export function configSchema(fields) {
  const own = ownFields(fields);
  return {
    type: 'object',
    additionalProperties: false,
    properties: { ...Object.fromEntries(own.map(([name, field]) => [name, schemaOf(field)])), ISSUER },
    patternProperties: { '^OTEL_': SCALAR },
  };
}

/** An empty text counts as missing, as in the service. Numbers and booleans may be written as texts. */
function schemaOf({ schema, bounds, type }) {
  if (bounds) {
    const { min, max } = bounds;
    return {
      type: ['integer', 'string'],
      description: type,
      minimum: min,
      maximum: max,
      pattern: '^[0-9]*$',
    };
  }
  const { enum: values, pattern } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  if (values?.includes('true')) return { enum: [true, false, ...values, ''] };
  if (values) return { enum: [...values, ''] };
  if (pattern === undefined) return SCALAR;
  return {
    ...typeOf(new RegExp(pattern, 'u')),
    description: type.replaceAll('`', ''),
    pattern: `^$|${pattern}`,
  };
}

/** JSON Schema applies a pattern to texts only: of numbers, either any passes it, or 0 alone for off, or none. */
function typeOf(pattern) {
  if (pattern.test('1')) return { type: ['number', 'string'] };
  return pattern.test('0') ? { type: ['integer', 'string'], minimum: 0, maximum: 0 } : { type: 'string' };
}
