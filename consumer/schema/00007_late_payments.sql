-- +goose Up
-- What a late payment does to an expired order changes no status, but the shop has to
-- learn of it: the event comes again, with the refund or the new order.
-- +goose StatementBegin
create or replace function outbox_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason)
  select id, n.status, n.reason
    from after_it n join before_it b using (id)
   where n.status <> b.status
      or (n.refund, n.replaced_by) is distinct from (b.refund, b.replaced_by)
   order by id;
  return null;
end $$;
-- +goose StatementEnd
create index payments_updated on payments (updated_at) where state = 'placing';
drop index payments_placing;

-- +goose Down
create index payments_placing on payments (created_at) where state = 'placing';
drop index payments_updated;
-- +goose StatementBegin
create or replace function outbox_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason)
  select id, n.status, n.reason from after_it n join before_it b using (id) where n.status <> b.status order by id;
  return null;
end $$;
-- +goose StatementEnd
