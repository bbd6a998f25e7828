#!/usr/bin/env node
import { startAgent } from './agent.ts';
import { ConfigurationError, readConfiguration, urlOf } from './configuration.ts';
import { makeLog } from './log.ts';

// A reader of the log that ends, such as a crashed collector, must not end the agent with it.
process.stdout.on('error', () => undefined);
const log = makeLog((line) => process.stdout.write(line));

try {
  const configuration = readConfiguration(process.env);
  const stop = await startAgent({ configuration, log, onLastingMistake: () => void end(1) });
  const end = async (code: number) => {
    await stop();
    process.exit(code);
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => void end(0));
  const { listen, ops } = configuration;
  log('info', 'serving', { url: urlOf(listen), ops: urlOf(ops) });
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  process.stderr.write(`${error.message.replaceAll(/^/gm, 'latchkey-agent: ')}\n`);
  process.exit(1);
}
