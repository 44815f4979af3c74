-- Given orders: one look into the index for each. See settle_decided.
select o.*
  from unnest($1::uuid[]) as w (id)
 cross join lateral (
       select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
              created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
         from orders
        where orders.id = w.id limit 1) o
