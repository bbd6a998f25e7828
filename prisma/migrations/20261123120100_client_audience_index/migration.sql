-- Alone in its migration, and without a lock that would hold up other statements on the table. One that was cut off leaves
-- an index that is INVALID: drop it, then have this run again (`latchkey migrate --resolve-rolled-back`).
CREATE UNIQUE INDEX CONCURRENTLY "service_clients_audience_key" ON "service_clients"("audience");
