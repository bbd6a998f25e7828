/**
 * Runs in the page at /docs, which gets it as text: it may use nothing outside itself. A plugin of Swagger UI that
 * shows an error in one line, with its codes, until it is clicked. Unfolded, the errors of signup took 6,000 pixels.
 */
export function collapseErrors() {
  return {
    wrapComponents: {
      response: (Original: Component, { React }: { React: React }) =>
        function CollapsedError(props: ResponseProps) {
          const [isOpen, setOpen] = React.useState(false);
          const { code, className, response } = props;
          if (isOpen || !/^[45]/.test(code)) return React.createElement(Original, props);
          const description = response.get('description') ?? '';
          const codes = [...description.matchAll(/^- `(\w+)`/gm)].map(([, name]) => name).join(', ');
          const open = () => {
            setOpen(true);
          };
          return React.createElement(
            'tr',
            { className: `response ${className}`, 'data-code': code },
            React.createElement('td', { className: 'response-col_status' }, code),
            React.createElement(
              'td',
              { className: 'response-col_description', colSpan: 2 },
              React.createElement(
                'button',
                { type: 'button', className: 'collapsed-error', 'aria-expanded': false, onClick: open },
                codes,
              ),
            ),
          );
        },
    },
  };
}

/**
 * The same kind of plugin: each answer with a pair becomes the page's bearerAuth and bearerRefreshToken. A refresh ends
 * both tokens of the pair before, and whoever forgot to paste one of the new ones got 401 everywhere.
 */
export function usePairs() {
  return {
    statePlugins: {
      spec: {
        wrapActions: {
          setResponse:
            (original: SetResponse, { authActions, specSelectors }: System): SetResponse =>
            (path, method, response) => {
              const { access_token: access, refresh_token: refresh } = response.body ?? {};
              if (typeof access === 'string' && typeof refresh === 'string')
                for (const [name, value] of [
                  ['bearerAuth', access],
                  ['bearerRefreshToken', refresh],
                ] as const) {
                  const schema = specSelectors.specJson().getIn(['components', 'securitySchemes', name]);
                  authActions.authorize({ [name]: { name, schema, value } });
                }
              return original(path, method, response);
            },
        },
      },
    },
  };
}

/** For a browser without JavaScript: the page itself shows nothing. */
export const WITHOUT_SCRIPT =
  '<noscript>This page needs JavaScript. The reference as a document: <a href="/docs/json">/docs/json</a></noscript>';

export const COLLAPSED_STYLE = `.collapsed-error {
  background: none;
  border: 0;
  color: inherit;
  cursor: pointer;
  font: inherit;
  padding: 0;
  text-align: left;
}
.collapsed-error::before { content: '▸ '; }
`;

/** The parts of React and Swagger UI that the plugins use. */
interface React {
  createElement(type: string | Component, props: object, ...children: unknown[]): unknown;
  useState<State>(initial: State): [state: State, set: (state: State) => void];
}

type Component = (props: ResponseProps) => unknown;

interface ResponseProps {
  code: string;
  className: string;
  /** An Immutable.Map. */
  response: { get(name: 'description'): string | undefined };
}

type SetResponse = (path: string, method: string, response: PageResponse) => unknown;

interface PageResponse {
  /** Parsed, if it is JSON. */
  body?: { access_token?: unknown; refresh_token?: unknown } | null | undefined;
}

interface System {
  authActions: { authorize(securities: Record<string, object>): unknown };
  /** An Immutable.Map. */
  specSelectors: { specJson(): { getIn(path: string[]): unknown } };
}
