-- +goose Up
-- When status, refund or replacement changed last, after the first decision.
alter table orders add column changed_at timestamptz;

-- Operators page through the orders of one status, and find the expired order that a
-- late payment has replaced by another.
create index orders_status on orders (activity_id, status, id);
create index orders_replaced_by on orders (replaced_by) where replaced_by is not null;

-- +goose Down
drop index orders_status, orders_replaced_by;
alter table orders drop column changed_at;
