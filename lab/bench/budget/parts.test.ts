import { test } from 'tap';
import { sharesOfParts, type CpuProfile } from './parts.ts';

/** A chain of calls for each line, from the outermost to the innermost; each sample is a line's innermost call. */
function aProfile(
  lines: [name: string, url: string][][],
  samples: [line: number, micros: number][],
): CpuProfile {
  const nodes: CpuProfile['nodes'] = [
    { id: 1, callFrame: { functionName: '(root)', url: '' }, children: [] },
  ];
  const innermost = lines.map((line) =>
    line.reduce((caller, [functionName, url]) => {
      const id = nodes.length + 1;
      nodes.push({ id, callFrame: { functionName, url }, children: [] });
      nodes[caller - 1]?.children?.push(id);
      return id;
    }, 1),
  );
  return {
    nodes,
    startTime: 1000,
    samples: samples.map(([line]) => innermost[line] ?? 0),
    timeDeltas: samples.map(([, micros]) => micros),
  };
}

const ALL = { from: 0, to: Infinity };

test('time counts for the innermost call that has a part', (t) => {
  const profile = aProfile(
    [
      [
        ['handler', 'file:///x/node_modules/fastify/lib/reply.js'],
        ['end', 'node:_http_outgoing'],
        ['writeLatin1String', ''],
      ],
      [
        ['handler', 'file:///x/node_modules/fastify/lib/reply.js'],
        ['parse', ''],
      ],
      [['verify', 'file:///x/dist/src/domain/access-tokens/verify.js']],
      [['(garbage collector)', '']],
      [['runMicrotasks', '']],
    ],
    [
      [0, 40],
      [1, 20],
      [2, 20],
      [3, 10],
      [4, 10],
    ],
  );
  t.match(sharesOfParts(profile, ALL), {
    'Node: writing answers': 0.4,
    Fastify: 0.2,
    'use cases': 0.2,
    'garbage collection': 0.1,
    other: 0.1,
    'Redis client': 0,
  });
  t.end();
});

test('idle time, and samples before and after the load, do not count', (t) => {
  const profile = aProfile(
    [
      [['(idle)', '']],
      [['start', 'file:///x/node_modules/avvio/boot.js']],
      [['send', 'file:///x/node_modules/ioredis/built/Redis.js']],
    ],
    [
      [1, 500],
      [0, 300],
      [2, 100],
      [1, 100],
    ],
  );
  t.match(sharesOfParts(profile, { from: 1600, to: 1950 }), { 'Redis client': 1, Fastify: 0 });
  t.throws(() => sharesOfParts(profile, { from: 5000, to: 6000 }), /no sample/);
  t.end();
});
