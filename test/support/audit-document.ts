import { EntrySchema } from '../../src/domain/audit/entry.ts';
import { EVENTS, type AuditEvent, type Definition, type EventName } from '../../src/domain/audit/event.ts';
import { NO_REQUEST, type Sourced } from '../../src/domain/audit/source.ts';
import { toEntry } from '../../src/domain/audit/to-entry.ts';
import { detailsOf } from './audit-schema.ts';
import { formatted } from './formatted.ts';

const INTRODUCTION = `<!-- Written by \`npm run docs\` from src/domain/audit/. -->

# Audit trail

The audit trail tells you who did what, from where, and with what result. Each event is one line of
JSON. Successful refreshes and verifies leave no event. No line holds a password, a token, a secret
or an e-mail address, but lines hold addresses of callers: keep them only as long as your rules
allow. The [runbook](runbook.md#latchkeyreusespike) shows how to follow a theft through the trail.

## Where it goes

\`AUDIT_LOG\` decides, and \`LOG_LEVEL\` does not change it:

- \`stdout\`, the default, is standard output, between the lines of the request log. Lines of the trail
  begin with \`{"log":"audit",\`.
- \`file:PATH\` appends to this file, and the service does not start if it cannot write there. To
  rotate the file, rename it: the next event creates a new one. Several replicas and commands of one
  host may share a file.
- \`none\` keeps no trail.

If an event cannot be written, no request fails. \`latchkey_audit_write_failures_total\` counts it,
[LatchkeyAuditLost](runbook.md#latchkeyauditlost) fires, and the log has one error for each cause. Up
to 1 MiB waits for a slow reader or disk, and is lost with \`kill -9\`. On standard output, events wait
apart from the lines of the log and go before them, so no flood of requests drops an event as long as
the reader keeps up with the trail. A full disk leaves no part of a line in the file.

### Events of commands

Commands that change something or show personal data leave events too, so give \`npx latchkey …\` the
service's \`AUDIT_LOG\`. Commands with wrong arguments leave none.

- On a host, use a file: with \`stdout\` the event goes to standard error, and nothing collects that of
  your terminal.
- In the service's container (\`podman exec\`, \`kubectl exec\`), \`stdout\` writes to the standard output
  of the service, where the collector reads it. Run the command as the service's user.
- The log of a Job's pod holds standard error as well.

The actor is \`LATCHKEY_OPERATOR\`, or else the operating system's user, with the host. In a container
that user is always the same, so name yourself: \`podman exec --env LATCHKEY_OPERATOR=ada …\`.
\`kubectl exec\` sets no variables, but Node reads them from standard input:

<!-- not run: needs Kubernetes -->

\`\`\`sh
kubectl -n latchkey exec -i deploy/latchkey -- \\
  node --env-file=/dev/stdin dist/src/cli.js user disable grace <<'END'
LATCHKEY_OPERATOR=ada
END
\`\`\`

The name is not proved; the audit log of the cluster says who opened the container.

A command whose event cannot be written changes nothing, says why, and ends with code 1, as it does
if the event is lost later. To run it without a trail, set \`AUDIT_LOG=none\` for it.

## A line

A refused login looks like this, on one line:
`;

const MEMBERS = 'Every line has all of these members:';

const NOTES = `An address is the caller's only if [\`TRUST_PROXY\`](operating.md#addresses-behind-proxies) lists your
proxies; otherwise it is the proxy's. For a request of a registered service it is the service's. In
\`user_agent\`, text that looks like an e-mail address or a token is replaced by \`[removed]\`.

\`name_hash\` stands for a name that no account has. It is keyed with the newest
\`REFRESH_TOKEN_SECRET\`, so equal names have equal hashes until that secret changes.

A wrong password, code or token that took a slot of a limit is one event. Some take none: a recovery
code without the form of one, a token tried from a network that is not counted, or anything while its
limit is off. Of these, each replica writes only the first of an event, account and network in a
minute, so that nobody can fill the trail, and the next has the number of those left out in
\`count\`. The metrics count each.

## Events

Below the table, each event has its occasion and its own fields in \`details\`, with an example of
each. A question mark stands at a field that may be missing. An operator's event also has \`reason\` if
its command was refused or failed. A registered service is the actor if it passed the token on.
`;

const CALLER: Sourced = {
  source: {
    address: '192.0.2.77',
    userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0',
    requestId: '2f5c0a1e-7f5e-4f43-9d0b-1d7a3b1c9e55',
    serviceId: null,
  },
};

const ACTORS: Record<Definition['actor'], string> = {
  user: 'the user',
  service: 'the registered service',
  presenter: 'anonymous, or a registered service',
  operator: 'the operator',
  system: 'the service itself',
};

/** The text of docs/audit.md. */
export async function auditDocument(): Promise<string> {
  const names = Object.keys(EVENTS) as EventName[];
  const envelope = Object.entries(EntrySchema.properties as Record<string, { description?: string }>).map(
    ([name, { description = '' }]) => `\`${name}\` | ${description}`,
  );
  const parts = [
    INTRODUCTION,
    `\`\`\`json\n${JSON.stringify(exampleOf('login.failed'))}\n\`\`\``,
    MEMBERS,
    table('member | meaning', envelope),
    NOTES,
    table('event | severity | outcome | actor', names.map(rowOf)),
    ...names.map(sectionOf),
  ];
  return formatted('audit.md', parts.join('\n\n'));
}

function rowOf(name: EventName): string {
  const { severity, outcome, actor }: Definition = EVENTS[name];
  return `\`${name}\` | \`${severity}\` | ${outcome === null ? 'any' : `\`${outcome}\``} | ${ACTORS[actor]}`;
}

function sectionOf(name: EventName): string {
  const isCommand = EVENTS[name].actor === 'operator';
  const details = Object.entries(detailsOf(name))
    .filter(([field]) => !(isCommand && field === 'reason'))
    .map(([field, { description = '', examples = [], isOptional }]) => {
      const example = examples.map((each) => `, such as \`${JSON.stringify(each)}\``).join('');
      return `- \`${field}\`${isOptional ? '?' : ''}: ${description}${example}`;
    });
  return [`### ${name}`, EVENTS[name].when, details.join('\n')].join('\n\n');
}

/** A line with the examples of every field. */
export function exampleOf(name: EventName) {
  const { fields, actor }: Definition = EVENTS[name];
  const values = Object.entries(fields.properties as Record<string, { examples?: unknown[] }>)
    // Of the two names of an account, an example has one. Usually no failure was left out before.
    .filter(
      ([field]) =>
        (field !== 'nameHash' && field !== 'reason' && field !== 'count') ||
        (name === 'login.failed' && field === 'reason'),
    )
    .map(([field, schema]) => [field, field === 'reason' ? 'password' : schema.examples?.[0]]);
  const event = { event: name, ...Object.fromEntries(values) } as AuditEvent;
  const isUnasked = actor === 'operator' || name.startsWith('key.');
  const self = { name: 'deploy', host: 'ops-1' };
  return toEntry(EVENTS[name], event, isUnasked ? NO_REQUEST : CALLER, Date.UTC(2026, 10, 22, 12), self);
}

function table(head: string, rows: readonly string[]): string {
  const line = head.replace(/[^|]+/g, ' --- ');
  return [head, line, ...rows].map((row) => `| ${row} |`).join('\n');
}
