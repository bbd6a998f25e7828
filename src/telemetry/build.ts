/** What runs. */
export interface Build {
  version: string;
  /** The commit it was built from, since commits share a version; `unknown` if the build was not told. */
  revision: string;
}
