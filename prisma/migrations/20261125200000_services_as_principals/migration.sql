SET LOCAL lock_timeout = '2s';

-- A service has roles, can be disabled, and has a version that ends its service tokens.
ALTER TABLE "service_clients"
    ADD COLUMN "roles" TEXT[] NOT NULL DEFAULT ARRAY[]::TEXT[],
    ADD COLUMN "version" INTEGER NOT NULL DEFAULT 1,
    ADD COLUMN "disabled_at" TIMESTAMPTZ(3);

CREATE TABLE "client_trusts" (
    "issuer" TEXT NOT NULL,
    "subject" TEXT NOT NULL,
    "client_id" TEXT NOT NULL,

    CONSTRAINT "client_trusts_pkey" PRIMARY KEY ("issuer", "subject")
);

CREATE INDEX "client_trusts_client_id_idx" ON "client_trusts"("client_id");

CREATE TABLE "issuer_keys" (
    "issuer" TEXT NOT NULL,
    "jwks" JSONB NOT NULL,

    CONSTRAINT "issuer_keys_pkey" PRIMARY KEY ("issuer")
);

ALTER TABLE "client_trusts" ADD CONSTRAINT "client_trusts_client_id_fkey"
    FOREIGN KEY ("client_id") REFERENCES "service_clients"("client_id") ON DELETE CASCADE ON UPDATE CASCADE;
