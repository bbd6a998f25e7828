import { loadSettings, type Environment } from '../config/config.ts';
import type { AuditEvent, EventOf } from '../domain/audit/event.ts';
import { COMMAND_KIND, WARNING_COMMAND_KIND } from '../domain/audit/kind.ts';
import { NO_REQUEST } from '../domain/audit/source.ts';
import { toEntry } from '../domain/audit/to-entry.ts';
import { isAudience } from '../domain/audience.ts';
import { parseRights } from '../domain/rights.ts';
import { truncate } from '../domain/truncate.ts';
import { commandOutput, operator } from '../infra/audit/command-trail.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, type Facts, type Outcome } from './command.ts';

type CommandEvent = Extract<AuditEvent, { outcome: unknown }>;
/** What is known of a command's event before it runs. */
type Begun = CommandEvent extends infer Each ? (Each extends object ? Omit<Each, 'outcome'> : never) : never;

/** A command's place in the audit trail. */
export interface CommandTrail {
  /** Facts that hold from now on, however the command ends. */
  note(facts: Facts): void;
  /** @returns false if the event was lost. */
  done(outcome: Outcome): boolean;
  failed(error: unknown): void;
  /** A signal ended it: it may have changed something. */
  stopped(): void;
}

const SILENT: CommandTrail = {
  note: () => undefined,
  done: () => true,
  failed: () => undefined,
  stopped: () => undefined,
};

/**
 * The audit trail of one command: one event if it changes something, also if it is refused or fails.
 * @throws ConfigError if AUDIT_LOG or LATCHKEY_OPERATOR is not valid, CommandError if the event could not be written: both
 *   before the command changes anything.
 */
export function openCommandTrail(words: readonly string[], values: Values, env: Environment): CommandTrail {
  const begun = eventOf(words, values);
  if (!begun) return SILENT;
  const config = loadSettings(env, 'AUDIT_LOG', 'LATCHKEY_OPERATOR');
  const self = operator();
  const actor = { ...self, name: config.LATCHKEY_OPERATOR ?? self.name };
  const output = commandOutput(config.AUDIT_LOG);
  const unwritable = output.check();
  if (unwritable !== null)
    throw new CommandError(
      `AUDIT_LOG: this command's audit event cannot be written to ${output.name} (${unwritable}), so nothing was ` +
        "changed: make space, run it as the service's user, or set AUDIT_LOG to another file for this command",
    );
  const kind = begun.event === 'user.factors_removed' ? WARNING_COMMAND_KIND : COMMAND_KIND;
  let noted: Facts = {};
  const write = (facts: Pick<CommandEvent, 'outcome' | 'reason'> & Outcome['audited']) => {
    const entry = toEntry(kind, { ...begun, ...noted, ...facts }, NO_REQUEST, Date.now(), actor);
    const code = output.write(`${JSON.stringify(entry)}\n`);
    if (code === null) return true;
    const warning =
      `AUDIT_LOG: this command's audit event could not be written to ${output.name} (${code}) and is lost: ` +
      'the command has run, so record it elsewhere';
    process.stderr.write(`${values.json ? JSON.stringify({ warning }) : warning}\n`);
    return false;
  };
  return {
    note: (facts) => {
      noted = { ...noted, ...facts };
    },
    done: ({ audited }) => write({ outcome: 'success', ...audited }),
    failed: (error) => {
      // Wrong arguments: the command has not begun.
      if (error instanceof UsageError) return;
      const outcome = error instanceof CommandError ? 'refused' : 'failed';
      write({ outcome, reason: reasonOf(error) });
    },
    stopped: () => {
      write({ outcome: 'failed', reason: 'ended by a signal' });
    },
  };
}

/** Our own refusals say why. Other messages may quote a row or a URL, so only their name and code count. */
function reasonOf(error: unknown): string {
  if (error instanceof CommandError) return truncate(error.message, 512);
  const { name, code } = error as NodeJS.ErrnoException;
  return [name, code].filter((part) => part !== undefined).join(' ');
}

/** The event of a command, by its words; null if it changes nothing. */
function eventOf([name, action, which, list]: readonly string[], values: Values): Begun | null {
  if (name === 'migrate' || name === 'purge' || name === 'explain' || name === 'drill')
    return { event: name };
  if (name === 'recover')
    return { event: name, endAll: values['end-all'], keepSessions: values['keep-sessions'] };
  if (name === 'settings' && action === 'accept') return { event: 'settings.accept' };
  if (name === 'user') return userEvent(action, values);
  if (name === 'readers' && action === 'forget') return forgetEvent(which, list);
  if (name === 'client') return clientEvent([action, which, list], values);
  if (name === 'factors' && action === 'rekey') return { event: 'factors.rekey' };
  if (name === 'keys' && action === 'add') return { event: 'keys.add' };
  if (name === 'keys' && action === 'retire') return { event: 'keys.retire', force: values.force };
  return null;
}

/** A command on users: its audit event has the command's name. */
function userEvent(action: string | undefined, { id = '', remove }: Values): Begun | null {
  const event = action === 'factors' && remove ? 'user.factors_removed' : `user.${action ?? ''}`;
  const user = /^[1-9]\d{0,14}$/.test(id) ? { userId: Number(id) } : {};
  return isUserCommand(event) ? { event, ...user } : null;
}

function forgetEvent(service = '', instance?: string): Begun {
  const named = instance === undefined ? {} : { instance: truncate(withoutAddresses(instance), 128) };
  return { event: 'readers.forget', serviceName: truncate(withoutAddresses(service), 64), ...named };
}

type UserCommand = Extract<CommandEvent['event'], `user.${string}`>;

/** The compiler demands every event of a command, and no other. */
const USER_COMMANDS: Readonly<Record<UserCommand, true>> = {
  'user.create': true,
  'user.delete': true,
  'user.disable': true,
  'user.enable': true,
  'user.export': true,
  'user.factors': true,
  'user.factors_removed': true,
  'user.import': true,
  'user.list': true,
  'user.reset': true,
  'user.roles': true,
  'user.show': true,
  'user.tokens': true,
};

function isUserCommand(event: string): event is UserCommand {
  return Object.hasOwn(USER_COMMANDS, event);
}

function clientEvent([action, given, list]: readonly (string | undefined)[], values: Values): Begun | null {
  const serviceName = truncate(withoutAddresses(given ?? ''), 64);
  if (action === 'create') {
    const { may, audience = '' } = values;
    const named = isAudience(audience) ? { audience } : {};
    return { event: 'client.create', serviceName, ...rightsOf(may), ...named };
  }
  if (action === 'allow') return { event: 'client.allow', serviceName, ...rightsOf(list) };
  const event = `client.${action ?? ''}` as const;
  if (isPlainClientCommand(event)) return { event, serviceName };
  const { issuer = '-', subject = '-', jwks } = values;
  const pair = { issuer: withoutAddresses(issuer), subject: withoutAddresses(subject) };
  if (action === 'trust') return { event: 'client.trust', serviceName, ...pair, keys: jwks !== undefined };
  if (action === 'untrust') return { event: 'client.untrust', serviceName, ...pair };
  if (action !== 'rotate') return null;
  const step: EventOf<'client.rotate'>['step'] = values.again ? 'again' : values.finish ? 'finish' : 'add';
  return { event: 'client.rotate', serviceName, step };
}

/** Never an e-mail address, even if an operator has named a service so, or a platform its workloads. */
function withoutAddresses(text: string): string {
  return truncate(text.replace(/\S*@\S*/g, '[removed]'), 512);
}

/** Those whose event says no more than the client. */
const PLAIN_CLIENT_COMMANDS = [
  'client.roles',
  'client.disable',
  'client.enable',
  'client.end-tokens',
  'client.delete',
] as const;

function isPlainClientCommand(event: string): event is (typeof PLAIN_CLIENT_COMMANDS)[number] {
  return PLAIN_CLIENT_COMMANDS.some((each) => each === event);
}

/** Rights that are not valid are wrong arguments, which leave no event. */
function rightsOf(list: string | undefined): { rights?: string } {
  const rights = list === undefined ? '' : parseRights(list);
  return Array.isArray(rights) ? { rights: rights.join(',') } : {};
}
