-- One page of the orders that an open gate has charged, if all is well, and of those
-- whose units it has yet to get back, in order of their ids.
select id::text, sku_id, quantity, status, release_epoch
  from orders
 where activity_id = $1 and ($2 = '' or id > nullif($2, '')::uuid)
   and (status in ('held', 'pending_payment', 'confirmed', 'paid') or release_epoch is not null)
 order by id limit $3
