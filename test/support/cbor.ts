/** What CBOR (RFC 8949) encodes here, and bytes that stand in it as they are. */
export type Cbor = number | string | boolean | Uint8Array | readonly Cbor[] | ReadonlyMap<Cbor, Cbor> | AsIs;

/** Encoded already, perhaps not as CTAP2 demands it. */
export class AsIs {
  readonly bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** In the canonical form of CTAP2, except that the keys of a map keep their order. */
export function encodeCbor(value: Cbor): Buffer {
  if (value instanceof AsIs) return Buffer.from(value.bytes);
  if (typeof value === 'boolean') return Buffer.of(value ? 0xf5 : 0xf4);
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string')
    return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  if (isMap(value)) return Buffer.concat([head(5, value.size), ...[...value].flat().map(encodeCbor)]);
  return Buffer.concat([head(4, value.length), ...value.map(encodeCbor)]);
}

/** A map that ends with a break instead of beginning with its size. */
export function indefiniteMap(entries: ReadonlyMap<Cbor, Cbor>): AsIs {
  return new AsIs(Buffer.concat([Buffer.of(0xbf), ...[...entries].flat().map(encodeCbor), Buffer.of(0xff)]));
}

/** A map whose first key stands in it twice. */
export function withKeyTwice(entries: ReadonlyMap<Cbor, Cbor>): AsIs {
  const all = [...entries, ...[...entries].slice(0, 1)];
  return new AsIs(Buffer.concat([head(5, all.length), ...all.flat().map(encodeCbor)]));
}

/** Arrays in arrays. */
export function nestedArrays(depth: number): AsIs {
  return new AsIs(Buffer.concat([Buffer.alloc(depth, 0x81), Buffer.of(0)]));
}

function isMap(value: object): value is ReadonlyMap<Cbor, Cbor> {
  return value instanceof Map;
}

function head(major: number, argument: number): Buffer {
  if (argument < 24) return Buffer.of((major << 5) | argument);
  if (argument < 0x100) return Buffer.of((major << 5) | 24, argument);
  const long = Buffer.alloc(argument < 0x10000 ? 3 : 5, (major << 5) | (argument < 0x10000 ? 25 : 26));
  long.writeUIntBE(argument, 1, long.length - 1);
  return long;
}
