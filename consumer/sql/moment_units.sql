-- The units of an activity's orders, by SKU and status.
select sku_id, status, sum(quantity)::bigint from orders where activity_id = $1 group by 1, 2
