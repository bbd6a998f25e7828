-- Services that may ask about tokens. Of a secret there is only its hash; two while one takes over from the other.
CREATE TABLE "service_clients" (
    "client_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "secret_hash" BYTEA NOT NULL,
    "previous_hash" BYTEA,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "rotated_at" TIMESTAMPTZ(3),

    CONSTRAINT "service_clients_pkey" PRIMARY KEY ("client_id")
);

CREATE UNIQUE INDEX "service_clients_name_key" ON "service_clients"("name");
