SET LOCAL lock_timeout = '2s';

-- What usernames that look alike have in common. Null for the accounts of an earlier release, also of one that still serves;
-- `latchkey user skeletons` fills them.
ALTER TABLE "users" ADD COLUMN "username_skeleton" TEXT;
