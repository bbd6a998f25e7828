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

/** The parts of React and Swagger UI that the plugin uses. */
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
