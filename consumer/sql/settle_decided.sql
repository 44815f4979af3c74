-- Orders of a batch that have a row: one look into the index for each, whatever the
-- statistics say of how many rows there are.
select o.*
  from unnest($1::uuid[]) as w (id)
 cross join lateral (
       select id::text, status, coalesce(reason, ''), activity_id, sku_id, user_id, quantity
         from orders
        where orders.id = w.id limit 1) o
