import type { Introspect } from './access-tokens/introspect.ts';
import type { Verify } from './access-tokens/verify.ts';
import type { ServiceClients } from './clients/authenticate.ts';
import type { RevokeToken } from './clients/revoke-token.ts';
import type { CreateLongLived } from './long-lived-tokens/create.ts';
import type { LogIn } from './sessions/log-in.ts';
import type { LogOut } from './sessions/log-out.ts';
import type { LogOutEverywhere } from './sessions/log-out-everywhere.ts';
import type { Refresh } from './sessions/refresh.ts';
import type { EndToken } from './tokens/end-token.ts';
import type { ListTokens } from './users/list-tokens.ts';
import type { Profile } from './users/profile.ts';
import type { SignUp } from './users/sign-up.ts';

/** Every use case, ready to be called: what the HTTP layer is given. */
export interface Services {
  signUp: SignUp;
  logIn: LogIn;
  logOut: LogOut;
  refresh: Refresh;
  verify: Verify;
  endToken: EndToken;
  createLongLived: CreateLongLived;
  profile: Profile;
  clients: ServiceClients;
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
  introspect: Introspect;
  revokeToken: RevokeToken;
}
