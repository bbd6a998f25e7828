-- What schema.prisma says of each column and index stands there. Here stands what it cannot express: partial indexes and
-- the fillfactor.
CREATE TYPE "token_type" AS ENUM ('session', 'llt');

CREATE TABLE "users" (
    "id" BIGSERIAL NOT NULL,
    "username" TEXT NOT NULL,
    "username_skeleton" TEXT NOT NULL,
    "email" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "password_hash" BYTEA NOT NULL,
    "imported_hash" TEXT,
    "imported_cost" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "password_version" INTEGER NOT NULL DEFAULT 0,
    "disabled_at" TIMESTAMPTZ(3),
    "roles" TEXT[] NOT NULL DEFAULT '{}',
    "email_verified_at" TIMESTAMPTZ(3),
    "version" INTEGER NOT NULL DEFAULT 0,
    "changed_at" TIMESTAMPTZ(3),
    "pending" BOOLEAN NOT NULL DEFAULT false,
    "deleted_at" TIMESTAMPTZ(3),

    CONSTRAINT "users_pkey" PRIMARY KEY ("id")
);

CREATE UNIQUE INDEX "users_username_key" ON "users"("username");
CREATE UNIQUE INDEX "users_username_skeleton_key" ON "users"("username_skeleton");
CREATE UNIQUE INDEX "users_email_key" ON "users"("email");
CREATE INDEX "users_changed_at_idx" ON "users"("changed_at") WHERE "changed_at" IS NOT NULL;
CREATE INDEX "users_deleted_idx" ON "users"("id") WHERE "deleted_at" IS NOT NULL;

CREATE TABLE "reserved_names" (
    "name_hash" TEXT NOT NULL,
    "until" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "reserved_names_pkey" PRIMARY KEY ("name_hash")
);

-- Every refresh updates a row of this table. If its page has room, the new version needs no new index entry
-- (docs/adr/0033).
CREATE TABLE "tokens" (
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "type" "token_type" NOT NULL,
    "name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "last_used_at" TIMESTAMPTZ(3),
    "revoked_at" TIMESTAMPTZ(3),
    "end_reason" TEXT,
    "ended_at" TIMESTAMPTZ(3),
    "pending" BOOLEAN NOT NULL DEFAULT false,
    "kid" TEXT,
    "expires_at" TIMESTAMPTZ(3),
    "created_by" BIGINT,
    "created_generation" BIGINT,
    "settled_at" TIMESTAMPTZ(3),
    "latest" BIGINT NOT NULL DEFAULT 0,
    "parent" BIGINT NOT NULL DEFAULT 0,
    "first" BIGINT NOT NULL DEFAULT 0,
    "confirmed" BOOLEAN NOT NULL DEFAULT false,
    "client" TEXT NOT NULL DEFAULT '',

    CONSTRAINT "tokens_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "tokens_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 90);

CREATE INDEX "tokens_pending_idx" ON "tokens"("id") WHERE "pending";
CREATE INDEX "tokens_settled_at_idx" ON "tokens"("settled_at") WHERE "settled_at" IS NOT NULL;
CREATE INDEX "tokens_user_id_ended_at_id_idx" ON "tokens"("user_id", "ended_at", "id");

CREATE TABLE "known_devices" (
    "user_id" BIGINT NOT NULL,
    "client" TEXT NOT NULL,
    "last_login_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "known_devices_pkey" PRIMARY KEY ("user_id","client"),
    CONSTRAINT "known_devices_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE
);

CREATE TABLE "password_resets" (
    "user_id" BIGINT NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "password_resets_pkey" PRIMARY KEY ("user_id"),
    CONSTRAINT "password_resets_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE
);

CREATE UNIQUE INDEX "password_resets_token_hash_key" ON "password_resets"("token_hash");

CREATE TABLE "service_clients" (
    "client_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "secret_hash" BYTEA NOT NULL,
    "previous_hash" BYTEA,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "rotated_at" TIMESTAMPTZ(3),
    "rights" TEXT[] NOT NULL,
    "audience" TEXT,

    CONSTRAINT "service_clients_pkey" PRIMARY KEY ("client_id")
);

CREATE UNIQUE INDEX "service_clients_name_key" ON "service_clients"("name");
CREATE UNIQUE INDEX "service_clients_audience_key" ON "service_clients"("audience");

CREATE TABLE "signing_keys" (
    "kid" TEXT NOT NULL,
    "first_seen_at" TIMESTAMPTZ(6),
    "published_at" TIMESTAMPTZ(6),
    "signs_since" TIMESTAMPTZ(6),
    "signed_at" TIMESTAMPTZ(6),

    CONSTRAINT "signing_keys_pkey" PRIMARY KEY ("kid")
);

CREATE TABLE "user_imports" (
    "file_hash" BYTEA NOT NULL,
    "lines" INTEGER NOT NULL DEFAULT 0,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,
    "finished_at" TIMESTAMPTZ(3),

    CONSTRAINT "user_imports_pkey" PRIMARY KEY ("file_hash")
);

CREATE TABLE "refused_import_lines" (
    "file_hash" BYTEA NOT NULL,
    "line" INTEGER NOT NULL,

    CONSTRAINT "refused_import_lines_pkey" PRIMARY KEY ("file_hash","line"),
    CONSTRAINT "refused_import_lines_file_hash_fkey" FOREIGN KEY ("file_hash") REFERENCES "user_imports"("file_hash") ON DELETE CASCADE ON UPDATE CASCADE
);
