-- One page of the orders of an activity, newest first: of each of the statuses the
-- newest below an id, and of these the newest. Every part comes from orders_status.
select o.*
  from unnest($2::text[]) as wanted (status)
 cross join lateral (
   select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, orders.status, coalesce(reason, ''),
          created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
     from orders
    where activity_id = $1 and orders.status = wanted.status
      and orders.id < coalesce(nullif($3, '')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by orders.id desc limit $4) o
 order by o.id desc limit $4
