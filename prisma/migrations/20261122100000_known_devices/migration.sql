SET LOCAL lock_timeout = '2s';

-- The devices that have logged in to an account: strangers' guesses do not lock them out. `client` is a keyed hash of
-- address and User-Agent. Replicas of a release before this one write none, and need none.
CREATE TABLE "known_devices" (
    "user_id" BIGINT NOT NULL,
    "client" TEXT NOT NULL,
    "last_login_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "known_devices_pkey" PRIMARY KEY ("user_id","client"),
    CONSTRAINT "known_devices_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE
);
