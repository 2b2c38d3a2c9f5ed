<?php
// The configuration by WORDPRESS_DB_*, the variables of the official image.
define('DB_HOST', getenv('WORDPRESS_DB_HOST'));
define('DB_USER', getenv('WORDPRESS_DB_USER'));
define('DB_PASSWORD', getenv('WORDPRESS_DB_PASSWORD'));
define('DB_NAME', getenv('WORDPRESS_DB_NAME'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
require __DIR__ . '/wp-keys.php';
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
